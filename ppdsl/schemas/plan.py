"""The schema of a plan, as ``ppdsl compile`` and ``Plan.to_json`` write it; the former adds the schedule where one is asked for."""

from __future__ import annotations

from ppdsl.schemas.fields import CHUNK_FIELDS, DRAFT, VERSION, Schema, array, choice, integer, record, string

_RANKS = integer("a pipeline rank")
_ACTION = "(0|[1-9][0-9]{0,8})[FBIW](0|[1-9][0-9]{0,8})"
_TRANSFER = "(0|[1-9][0-9]{0,8})(SEND|WAIT|RECV)_[FB](0|[1-9][0-9]{0,8})(#(0|[1-9][0-9]{0,8}))?"
_REDUCTION = "(0|[1-9][0-9]{0,8})REDUCE_GRAD"


def _by_rank(description: str, items: Schema) -> Schema:
    return array(description, items, least=1)


_BUFFERS = {
    "forward_slots": _by_rank("buffers for received activations", integer("of a rank")),
    "backward_slots": _by_rank("buffers for received gradients", integer("of a rank")),
    "send_slots": _by_rank("the most outputs made and not yet begun to be sent", integer("of a rank")),
    "in_flight": _by_rank("the most microbatches whose F is done and whose B or I is not, counted over its chunks", integer("of a rank")),
}
_SCHEDULE = record(
    "what each rank does in a step, proved free of deadlock",
    {
        "name": string("the name of the schedule"),
        "microbatches": integer("microbatches in a step", 1),
        "depth": integer("how many actions ahead of its use a receive is posted"),
        "owners": array("the rank that owns each stage, by stage", _RANKS, least=1),
        "actions": _by_rank(
            "the actions of each rank, in torch's notation", array("of a rank", string("an action", f"^{_ACTION}$"), least=1)
        ),
        "program": _by_rank(
            "the same with sends, receives and the buffer of each, waits, and where a stage's gradients are complete",
            array("of a rank", string("an instruction", f"^({_ACTION}|{_TRANSFER}|{_REDUCTION})$"), least=1),
        ),
        "buffers": record("what each rank needs", _BUFFERS),
    },
)
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
    "schedule": _SCHEDULE,
}
SCHEMA: Schema = {
    "$schema": DRAFT,
    "title": "ppdsl plan",
    **record("which layers live in which chunk on which pipeline rank", _FIELDS, optional=["schedule"]),
}
