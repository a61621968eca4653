"""Plan to text: its JSON, and the text of its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.formatting import format_run

if TYPE_CHECKING:
    from ppdsl.planning.plan import Chunk, Plan

SCHEMA_VERSION = "1.0"
KIND = "ppdsl.plan"
MEANING_VERSION = "ppdsl-plan-1"


def plan_as_json(plan: Plan) -> dict[str, object]:
    """Give a plan as data that ``json.dumps`` takes, its fingerprint included."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "layout": plan.layout,
        "pp": plan.pp,
        "vpp": plan.vpp,
        "placement": plan.placement,
        "num_layers": plan.num_layers,
        "mtp_num_layers": plan.mtp_num_layers,
        "chunks": [chunk_as_json(chunk) for chunk in plan.chunks],
        "embedding_ranks": {"tied": plan.embedding_ranks(tied=True), "untied": plan.embedding_ranks(tied=False)},
        "fingerprint": plan.fingerprint,
    }


def chunk_as_json(chunk: Chunk) -> dict[str, object]:
    """Give a chunk as data that ``json.dumps`` takes; its ranges are lists of two."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in chunk._asdict().items()}


def write_chunk(chunk: Chunk, *, final_norm: bool = True) -> str:
    """Write what a chunk holds as one canonical stage, without bar and owner.

    Args:
        chunk: The chunk.
        final_norm: Whether the final norm is written, as ``N``. It is then written where it is only implied, too.
    """
    layers, mtp_layers = (stop - start for start, stop in (chunk.layers, chunk.mtp_layers))
    norm = "N" if final_norm and chunk.final_norm else ""
    return "E" * chunk.embedding + format_run("t", layers) + norm + format_run("m", mtp_layers) + "L" * chunk.loss


def write_meaning(plan: Plan) -> str:
    """Write what a plan means, however its layout was spelled.

    Returns:
        Four lines, the last one unended: the version of this text; the stages in canonical form without ``N``, joined by ``|``; the
        pipeline rank of each stage, joined by ``,``; the number of the stage that holds the final norm.
    """
    stages = "|".join(write_chunk(chunk, final_norm=False) for chunk in plan.chunks)
    owners = ",".join(str(chunk.pp_rank) for chunk in plan.chunks)
    norms = ",".join(str(chunk.stage) for chunk in plan.chunks if chunk.final_norm)
    return f"{MEANING_VERSION}\n{stages}\n{owners}\n{norms}"
