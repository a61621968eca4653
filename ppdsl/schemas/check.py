"""The schema of what ``ppdsl check --output-format json`` writes: the result of one layout, or of several."""

from __future__ import annotations

from ppdsl.schemas.fields import (
    CHUNK_FIELDS,
    DRAFT,
    VERSION,
    Schema,
    array,
    boolean,
    choice,
    integer,
    or_null,
    record,
    string,
)

_SPAN = record(
    "the characters meant; null where there is no text",
    {
        "start": integer("offset of the first character, in the layout's source"),
        "end": integer("offset behind the last character"),
        "line": integer("line of the first character, in the file where there is one", 1),
        "column": integer("its column in that line, in characters", 1),
    },
)
_LABEL = record("a place", {"span": or_null(_SPAN), "text": string("what is said of it")})
_DIAGNOSTIC = record(
    "one fault, or one piece of advice",
    {
        "code": string("stable for ever; `ppdsl explain CODE` says more", "^PP[0-9]{3}$"),
        "severity": choice("only an error makes a layout invalid", "error", "warning", "info"),
        "message": string("what is wrong"),
        "span": or_null(_SPAN),
        "label": string("what is said of the span; may be empty"),
        "labels": array("other places, in the same source", _LABEL),
        "notes": array("facts that help to understand", string("one line")),
        "help": or_null(string("what to do about it, the corrected layout included")),
        "fix": or_null(string("the corrected layout, whole; ppdsl has checked it")),
    },
    optional=["label"],
)
_LAYOUT = record(
    "the layout and its sizes; what is not known is null",
    {
        "source": or_null(string("the text as given; null where the layout came in another form than text")),
        "canonical": or_null(string("the canonical form; null where the syntax is at fault, or it would be too long")),
        "stages": or_null(integer("number of stages")),
        "pp": or_null(integer("number of pipeline ranks")),
        "vpp": or_null(integer("virtual pipeline size, stages / pp")),
        "num_layers": or_null(integer("decoder layers")),
        "mtp_num_layers": or_null(integer("multi-token-prediction layers")),
        "placement": or_null(choice("which rank owns which stage", "loop", "v", "owners")),
        "embedding_ranks": or_null(
            array("ranks with a copy of the word embedding; there where it was said whether it is tied", integer("a rank"))
        ),
    },
    optional=["embedding_ranks"],
)
_CELL = record("a chunk", {**CHUNK_FIELDS, "text": string("what it holds; the final norm is N also where it is only implied")})
_RESULT_FIELDS: dict[str, Schema] = {
    "schema_version": VERSION,
    "ppdsl_version": string("the version of ppdsl that wrote this"),
    "valid": boolean("whether there is no error"),
    "layout": or_null(_LAYOUT),
    "table": or_null(array("one row a rank; null where it cannot be made", array("one cell a chunk of the rank", _CELL, least=1), least=1)),
    "counts": record("diagnostics of each severity", {name: integer(f"of severity {name}") for name in ("error", "warning", "info")}),
    "diagnostics": array("all that was found", _DIAGNOSTIC),
    "fitting_sizes": array("the (pp, vpp) pairs that fit, where pp is not known", array("pp and vpp", integer("a size", 1))),
    "place": or_null(
        record(
            "where the layout stands in the input",
            {
                "name": string("a file, <layout> or <stdin>"),
                "line": or_null(integer("its line", 1)),
                "column": or_null(integer("its column", 1)),
            },
        )
    ),
    "provenance": array(
        "where each value comes from; empty where all were typed",
        record(
            "a value",
            {"name": string("its option"), "value": {"description": "the value"}, "from": string("an option, or a line of a file")},
        ),
    ),
    "usage_error": string("why the command could not be understood; only then is it there"),
}
_OPTIONAL = ["fitting_sizes", "place", "provenance", "usage_error"]
_RESULT = record("the result of one layout", _RESULT_FIELDS, optional=_OPTIONAL)
_RESULTS = record(
    "the results of standard input or of files, in the order of the input",
    {
        "schema_version": VERSION,
        "ppdsl_version": string("the version of ppdsl that wrote this"),
        "valid": boolean("whether all of them are valid"),
        "results": array("one a layout", _RESULT),
    },
    optional=["ppdsl_version"],
)
SCHEMA: Schema = {
    "$schema": DRAFT,
    "title": "ppdsl check",
    "type": "object",
    "if": {"required": ["results"]},
    "then": _RESULTS,
    "else": _RESULT,
}
