"""What goes wrong between ranks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.messages import Message


class PeerError(RuntimeError):
    """Another rank did not do its part: it died, failed, or took too long.

    Attributes:
        rank: The rank that says so.
        doing: What it did: ``in step 3 at 2F0, waiting for the activation of stage 1 for microbatch 0 from rank 1``.
        cause: What was found.
        message: The message under way, None where it was none.
        peer: The rank at its other end; -1 where it was no single one.
    """

    def __init__(self, rank: int, doing: str, cause: str, message: Message | None = None, peer: int = -1) -> None:
        super().__init__(f"rank {rank}, {doing}: {cause}")
        self.rank = rank
        self.doing = doing
        self.cause = cause
        self.message = message
        self.peer = peer

    def __reduce__(self) -> tuple[type[PeerError], tuple[int, str, str, Message | None, int]]:
        """Pickle it whole, so that it can be told to another process."""
        return PeerError, (self.rank, self.doing, self.cause, self.message, self.peer)


class MismatchError(RuntimeError):
    """Two ends of a channel do not mean the same message, or not the same tensors."""


@contextmanager
def naming_peer(rank: int, progress: Progress, doing: str, peer: int = -1) -> Iterator[None]:
    """Turn what torch.distributed raises inside into a PeerError.

    Args:
        rank: This rank.
        progress: Where it is; its phase is ``doing`` inside.
        doing: What it does, in words: ``connecting to rank 1``.
        peer: The rank that it needs for that; -1 where it needs several.

    Raises:
        PeerError: Another rank died or took too long.
    """
    before, progress.phase = progress.phase, doing
    try:
        yield
    except PeerError:
        raise
    except RuntimeError as error:
        where = str(progress) if progress.instruction is None else f"{progress}, {doing}"
        raise PeerError(rank, where, shorten(error), progress.message, peer) from error
    finally:
        progress.phase = before


def shorten(error: BaseException) -> str:
    """Give the first sentence of a backend's error, without the place in its source."""
    text = str(error).split("\n", 1)[0]
    if text.startswith("[") and "] " in text:
        text = text.split("] ", 1)[1]
    return text.split(". ", 1)[0]
