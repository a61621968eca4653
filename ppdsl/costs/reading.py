"""The costs file to costs: strict, so that a slip of the pen is refused and not simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.costs.numbers import refuse_unknown, show, take_number, take_object
from ppdsl.costs.values import BYTES_PER_PARAM, FREE, KINDS, Costs, LayerCosts, Link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ppdsl.costs.shape import ModelShape

TOP_FIELDS = ("schema_version", "kinds", "layers", "p2p_ms", "link", "bytes_per_param", "memory_limit_bytes")
LINK_FIELDS = ("latency_us", "gigabytes_per_s", "message_bytes")
TIME_FIELDS = ("forward", "backward", "input_grad", "weight_grad")
SIZE_FIELDS = ("params", "activation_bytes", "activation_bytes_after_input_grad", "workspace_bytes")
LAYER_FIELDS = TIME_FIELDS + SIZE_FIELDS
LEAST_SPEED = 1e-9
"""One byte a second; with it no message takes for ever."""
_BACKWARD_FIELDS = TIME_FIELDS[1:]
_MOST_LAYER_DIGITS = 12
_MOST_DIGITS = 40
_ROUNDING = 1e-6


def read_costs(data: Mapping[str, object] | str, shape: ModelShape | None = None) -> Costs:
    """Read a costs file.

    A layer's backward is twice its forward where nothing is said of it. Where only the whole backward is known, the embedding's is all
    weight gradient, and any other is split in halves, or a decoder layer's as its shape says. A single layer (``layers``) is like
    ``kinds.t`` but for what is given. Without ``kinds.m`` an MTP layer costs what a decoder layer does; another kind that is left out costs
    nothing, and so does every other field.

    Args:
        data: The file as data, or as JSON text.
        shape: The model's shape, where it is known.

    Raises:
        ValueError: The file is damaged, or of a later version; one line names the path and says what is wrong.
    """
    fields = take_object(decode_json(data) if isinstance(data, str) else data, "the costs file")
    refuse_unknown(fields, "", "field", TOP_FIELDS)
    _check_version(fields.get("schema_version", "1.0"))
    given = take_object(_take(fields, "kinds"), "kinds")
    refuse_unknown(given, "kinds.", "kind", KINDS)
    layer = take_object(_take(given, "t", "kinds."), "kinds.t")
    kinds = {kind: _read_kind(kind, given[kind], shape) for kind in KINDS if kind in given}
    _take(layer, "forward", "kinds.t.")
    kinds.setdefault("m", kinds["t"])
    link = _read_link(fields)
    return Costs(
        kinds,
        _read_layers(fields, layer, kinds["t"]),
        take_number(fields.get("p2p_ms", 0.0), "p2p_ms"),
        link,
        0 if link is None else link.message_bytes,
        take_number(fields.get("bytes_per_param", BYTES_PER_PARAM), "bytes_per_param"),
        take_number(fields["memory_limit_bytes"], "memory_limit_bytes") if "memory_limit_bytes" in fields else None,
        "input_grad" in layer or "weight_grad" in layer,
    )


def decode_json(text: str) -> object:
    """Decode the text of a costs file of any kind that is JSON.

    Raises:
        ValueError: It is not JSON, is nested too deep, or an object has a key twice.
    """
    from json import JSONDecodeError, loads  # noqa: PLC0415 -- only text needs it

    try:
        return loads(text, object_pairs_hook=_collect, parse_int=_read_integer)
    except RecursionError:
        raise ValueError("the costs file is nested too deep") from None
    except _RepeatedError as error:
        raise ValueError(str(error)) from None
    except JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ValueError(f"the costs file is not JSON: {what}: line {error.lineno}, column {error.colno}") from None


class _RepeatedError(ValueError):
    """An object has a key twice."""


def _collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise _RepeatedError(f"{show(name)} stands twice in one object")
        fields[name] = value
    return fields


def _read_integer(digits: str) -> float:
    """Read an integer; one of thousands of digits, which Python refuses to read, is only too large a number."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _take(data: Mapping[str, object], name: str, path: str = "") -> object:
    if name not in data:
        raise ValueError(f"{path}{name} is missing")
    return data[name]


def _check_version(version: object) -> None:
    major, dot, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not (dot and minor.isascii() and minor.isdigit() and major == "1"):
        raise ValueError(f"schema_version is {show(version)}, this version of ppdsl reads 1.x")


def _read_kind(kind: str, data: object, shape: ModelShape | None) -> LayerCosts:
    path = f"kinds.{kind}"
    share = 0.0 if kind == "E" else 0.5
    if shape is not None and kind in ("t", "m"):
        _, input_grad, weight_grad = shape.layer_flops
        share = input_grad / (input_grad + weight_grad)
    return _complete(_read_layer(data, path), path, FREE, share)


def _read_layers(fields: Mapping[str, object], layer: Mapping[str, object], like: LayerCosts) -> dict[int, LayerCosts]:
    doubled = not {*layer} & {*_BACKWARD_FIELDS}
    layers = {}
    for key, data in take_object(fields.get("layers", {}), "layers").items():
        text = str(key)
        if not (text.isascii() and text.isdigit() and str(int(text[:_MOST_LAYER_DIGITS])) == text):
            raise ValueError(f"layers has {show(text)}, not the number of a decoder layer")
        own = _read_layer(data, f"layers.{text}")
        if doubled and "forward" in own and not own.keys() & {*_BACKWARD_FIELDS}:
            own["backward"] = 2 * own["forward"]
        layers[int(text)] = _complete(own, f"layers.{text}", like, like.input_share)
    return layers


def _read_layer(data: object, path: str) -> dict[str, float]:
    fields = take_object(data, path)
    refuse_unknown(fields, f"{path}.", "field", LAYER_FIELDS)
    return {name: take_number(fields[name], f"{path}.{name}") for name in LAYER_FIELDS if name in fields}


def _complete(given: dict[str, float], path: str, like: LayerCosts, share: float) -> LayerCosts:
    """Fill in what is not given from what a layer is like, and the halves of the backward by the share of the first."""
    forward = given.get("forward", like.forward)
    if given.keys() & {*_BACKWARD_FIELDS}:
        backward, input_grad, weight_grad = _complete_backward(given, path, share)
    elif like is FREE:
        backward, input_grad, weight_grad = _complete_backward({"backward": 2 * forward}, path, share)
    else:
        backward, input_grad, weight_grad = like.backward, like.input_grad, like.weight_grad
    params, held, left, workspace = (given.get(name, getattr(like, name)) for name in SIZE_FIELDS)
    if left > held:
        raise ValueError(f"{path}.activation_bytes_after_input_grad is {show(left)}, more than activation_bytes, {show(held)}")
    return LayerCosts(forward, backward, input_grad, weight_grad, params, held, left, workspace)


def _complete_backward(given: dict[str, float], path: str, share: float) -> tuple[float, float, float]:
    """Give the whole backward and its halves."""
    whole, first, second = (given.get(name) for name in _BACKWARD_FIELDS)
    if whole is None:
        if first is None or second is None:
            missing, there = ("input_grad", "weight_grad") if first is None else ("weight_grad", "input_grad")
            raise ValueError(f"{path}.{missing} is missing beside {there}")
        return first + second, first, second
    if first is None and second is None:
        first = whole * share
        return whole, first, whole - first
    if first is not None and second is not None:
        if abs(first + second - whole) > _ROUNDING * whole:
            raise ValueError(f"{path}.backward is {show(whole)}, where input_grad + weight_grad is {show(first + second)}")
        return first + second, first, second
    name, half = ("input_grad", first) if first is not None else ("weight_grad", second)
    rest = whole - (half or 0.0)
    if rest < 0:
        raise ValueError(f"{path}.{name} is {show(half)}, more than backward, {show(whole)}")
    return (whole, half or 0.0, rest) if name == "input_grad" else (whole, rest, half or 0.0)


def _read_link(fields: Mapping[str, object]) -> Link | None:
    if "link" not in fields:
        return None
    if "p2p_ms" in fields:
        raise ValueError("p2p_ms and link stand side by side, where only one of them may")
    data = take_object(fields["link"], "link")
    refuse_unknown(data, "link.", "field", LINK_FIELDS)
    speed = take_number(data["gigabytes_per_s"], "link.gigabytes_per_s", least=LEAST_SPEED) if "gigabytes_per_s" in data else None
    latency, message = (take_number(data.get(name, 0), f"link.{name}") for name in ("latency_us", "message_bytes"))
    return Link(latency, speed, message)
