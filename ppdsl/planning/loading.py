"""JSON to plan: strict, so that a damaged file, or one of a later version, is refused with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ppdsl.planning.plan import Chunk
from ppdsl.planning.rebuilding import rebuild_plan
from ppdsl.planning.writing import KIND, SCHEMA_VERSION

if TYPE_CHECKING:
    from ppdsl.planning.plan import Plan

_RANGE_ENDS = 2
_MOST_SHOWN = 80
_MOST_DIGITS = 10**20


def load_plan(data: Mapping[str, object] | str) -> Plan:
    """Read a plan that ``plan_as_json`` wrote.

    The layout is compiled anew, and everything else must be what it gives. Fields that are not known are accepted, since a later minor
    version may add some.

    Args:
        data: The plan as data, or as JSON text.

    Raises:
        ValueError: The data is damaged, or of a later version; one line says what is wrong.
    """
    fields = _decode(data) if isinstance(data, str) else data
    if not isinstance(fields, Mapping):
        raise ValueError(f"the plan is {_show(fields)}, not an object")  # noqa: TRY004 -- the data is at fault, not the call
    _check_version(fields)
    chunks = [_read_chunk(item, f"chunks[{number}]") for number, item in enumerate(_list(fields, "chunks"))]
    plan = rebuild_plan(_string(fields, "layout"), _integer(fields, "pp"), _string(fields, "placement"), len(chunks))
    for name in ("vpp", "num_layers", "mtp_num_layers"):
        _compare(name, _integer(fields, name), getattr(plan, name))
    for given, right in zip(chunks, plan.chunks, strict=True):
        for name, value, expected in zip(Chunk._fields, given, right, strict=True):
            _compare(f"chunks[{right.stage}].{name}", value, expected)
    ranks = _object(fields, "embedding_ranks")
    for name, tied in (("tied", True), ("untied", False)):
        where = "embedding_ranks."
        _compare(where + name, _integers(ranks, name, where), tuple(plan.embedding_ranks(tied=tied)))
    _compare("fingerprint", _string(fields, "fingerprint"), plan.fingerprint)
    return plan


def _decode(text: str) -> object:
    from json import JSONDecodeError, loads  # noqa: PLC0415 -- only text needs it

    try:
        return loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the plan is nested too deep") from None
    except JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ValueError(f"the plan is not JSON: {what}: line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise ValueError(f"the plan is not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _check_version(fields: Mapping[str, object]) -> None:
    kind, version = _string(fields, "kind"), _string(fields, "schema_version")
    _compare("kind", kind, KIND)
    major, dot, minor = version.partition(".")
    ours = SCHEMA_VERSION.partition(".")[0]
    if not (dot and minor.isascii() and minor.isdigit() and major == ours):
        raise ValueError(f"schema_version is {_show(version)}, this version of ppdsl reads {ours}.x")


def _read_chunk(data: object, where: str) -> Chunk:
    if not isinstance(data, Mapping):
        raise _wrong_type(where, data, "an object")
    where += "."
    return Chunk(
        _integer(data, "stage", where),
        _integer(data, "pp_rank", where),
        _integer(data, "vpp_rank", where),
        _range(data, "layers", where),
        _range(data, "mtp_layers", where),
        _boolean(data, "embedding", where),
        _boolean(data, "final_norm", where),
        _boolean(data, "loss", where),
    )


def _range(data: Mapping[str, object], name: str, where: str) -> tuple[int, int]:
    ends = _integers(data, name, where)
    if len(ends) != _RANGE_ENDS:
        raise ValueError(f"{where}{name} has {len(ends)} entries, not 2")
    return ends[0], ends[1]


def _integers(data: Mapping[str, object], name: str, where: str) -> tuple[int, ...]:
    values = _list(data, name, where)
    return tuple(_check_integer(f"{where}{name}[{number}]", value) for number, value in enumerate(values))


def _integer(data: Mapping[str, object], name: str, where: str = "") -> int:
    return _check_integer(where + name, _take(data, name, where))


def _check_integer(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong_type(where, value, "an integer from 0")
    return value


def _boolean(data: Mapping[str, object], name: str, where: str) -> bool:
    value = _take(data, name, where)
    if not isinstance(value, bool):
        raise _wrong_type(where + name, value, "true or false")
    return value


def _string(data: Mapping[str, object], name: str) -> str:
    value = _take(data, name)
    if not isinstance(value, str):
        raise _wrong_type(name, value, "a string")
    return value


def _list(data: Mapping[str, object], name: str, where: str = "") -> list[object] | tuple[object, ...]:
    value = _take(data, name, where)
    if not isinstance(value, (list, tuple)):
        raise _wrong_type(where + name, value, "a list")
    return value


def _object(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = _take(data, name)
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, "an object")
    return value


def _take(data: Mapping[str, object], name: str, where: str = "") -> object:
    if name not in data:
        raise ValueError(f"{where}{name} is missing")
    return data[name]


def _wrong_type(where: str, value: object, wanted: str) -> ValueError:
    return ValueError(f"{where} is {_show(value)}, not {wanted}")


def _compare(where: str, value: object, expected: object) -> None:
    if value != expected:
        raise ValueError(f"{where} is {_show(value)}, where {_show(expected)} must stand")


def _show(value: object) -> str:
    """Write a value of any size and depth in a few characters."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < _MOST_DIGITS else "a huge integer"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, str):
        return ascii(value if len(value) <= _MOST_SHOWN else value[:_MOST_SHOWN] + "…")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_show, value))}]"
    return "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else f"of type {type(value).__name__}"
