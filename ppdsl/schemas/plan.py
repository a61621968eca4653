"""The schema of a plan, as ``ppdsl compile`` and ``Plan.to_json`` write it."""

from __future__ import annotations

from ppdsl.schemas.fields import CHUNK_FIELDS, DRAFT, VERSION, Schema, array, choice, integer, record, string

_RANKS = integer("a pipeline rank")
_FIELDS: dict[str, Schema] = {
    "schema_version": VERSION,
    "kind": {"description": "what this file is", "const": "ppdsl.plan"},
    "layout": string("the layout in canonical form"),
    "pp": integer("number of pipeline ranks", 1),
    "vpp": integer("the largest number of chunks on a rank", 1),
    "placement": choice("which rank owns which stage: dealt out in turn, in turn and back, or as the layout says", "loop", "v", "owners"),
    "num_layers": integer("decoder layers of the model"),
    "mtp_num_layers": integer("multi-token-prediction layers of the model"),
    "chunks": array("every stage, in forward order", record("one stage, and where it is", CHUNK_FIELDS), least=1),
    "embedding_ranks": record(
        "the ranks that hold a copy of the word embedding, sorted",
        {
            "tied": array("where the lm-head shares the embedding's weight", _RANKS, least=1),
            "untied": array("where it has a weight of its own", _RANKS, least=1),
        },
    ),
    "fingerprint": string("SHA-256 of what the plan means, however its layout is spelled", "^sha256:[0-9a-f]{64}$"),
}
SCHEMA: Schema = {"$schema": DRAFT, "title": "ppdsl plan", **record("which layers live in which chunk on which pipeline rank", _FIELDS)}
