"""The colours of the pictures: one for each kind of work, and a shade of it for each chunk of a rank.

Forward, input gradient and weight gradient differ in hue and in lightness, so that they are told apart also by those who see few colours;
the whole backward lies between its two halves. Dark text can be read on all of them.
"""

from __future__ import annotations

KINDS = "FBIW"
"""The order in which kinds stand in a legend, and lie upon each other from below."""

NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}

INK = "#14171a"
"""What text on a fill is written in."""

_ENDS = {
    "F": ((159, 197, 251), (90, 143, 214)),
    "B": ((251, 184, 106), (224, 138, 44)),
    "I": ((238, 128, 120), (210, 92, 88)),
    "W": ((251, 226, 140), (228, 194, 66)),
}
"""The fills of a rank's first chunk and of its last."""


def color_of(kind: str, chunk: int, chunks: int) -> str:
    """Give the fill of an action as ``#rrggbb``.

    Args:
        kind: F, B, I or W.
        chunk: The number of its stage among the rank's stages, in forward order.
        chunks: How many stages the rank has.
    """
    share = chunk / (chunks - 1) if chunks > 1 else 0.5
    return "#" + "".join(f"{round(first + (last - first) * share):02x}" for first, last in zip(*_ENDS[kind], strict=True))
