"""Sizes of the models that can be trained, as plain data, and names for the usual ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Literal, get_args

from ppdsl_runtime.reading import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ppdsl import Plan

FamilyName = Literal["gpt2", "llama"]
"""Whose blocks a model is made of: GPT-2's or LLaMA's."""

_COUNTS = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "max_positions", "mtp_layers")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How LLaMA 3.1 stretches its rotary embedding to longer texts.

    Attributes:
        factor: By how much the low frequencies are slowed down.
        low_freq_factor: Waves longer than ``original_positions / low_freq_factor`` tokens are slowed down in full.
        high_freq_factor: Waves shorter than ``original_positions / high_freq_factor`` tokens are left alone.
        original_positions: Tokens of the longest sequence before the stretch.

    Raises:
        ValueError: A number is not finite or not above 0, or the two factors are not in order.
    """

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192

    def __post_init__(self) -> None:
        for each in fields(self):
            _check_positive(f"rope_scaling.{each.name}", getattr(self, each.name))
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"rope_scaling.high_freq_factor is {self.high_freq_factor!r}, not above low_freq_factor = {self.low_freq_factor!r}"
            )


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a decoder-only transformer.

    Attributes:
        family: ``gpt2`` or ``llama``.
        layers: Decoder layers.
        hidden: Hidden size.
        heads: Attention heads; ``hidden`` is a multiple of it.
        vocab: Rows of the word embedding: the vocabulary, padding included.
        max_positions: Tokens of the longest sequence.
        kv_heads: Heads of keys and values, of which ``heads`` is a multiple; None is one for each head. GPT-2 has no other.
        ffn: Hidden size of the MLP; None is 4 x ``hidden``.
        mtp_layers: Multi-token-prediction layers.
        tied: Whether the lm-head shares the word embedding's weight.
        dropout: Probability that an element is dropped, in 0..1; 0 is off.
        norm_eps: What the norms add to the variance.
        rope_theta: Base of LLaMA's rotary embedding.
        rope_scaling: LLaMA 3.1's stretch of it, None for none.

    Raises:
        ValueError: A size is out of range, or the sizes do not fit each other.
    """

    family: FamilyName
    layers: int
    hidden: int
    heads: int
    vocab: int
    max_positions: int = 1024
    kv_heads: int | None = None
    ffn: int | None = None
    mtp_layers: int = 0
    tied: bool = False
    dropout: float = 0.0
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.family not in get_args(FamilyName):
            raise ValueError(f"family is {self.family!r}, not one of {', '.join(get_args(FamilyName))}")
        for name in _COUNTS:
            _check_count(name, getattr(self, name))
        if not isinstance(self.tied, bool):
            raise ValueError(f"tied is {self.tied!r}, not true or false")  # noqa: TRY004 -- the data is at fault, not the call
        _check_number("dropout", self.dropout)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout!r}, not a number from 0 to below 1")
        _check_positive("norm_eps", self.norm_eps)
        _check_positive("rope_theta", self.rope_theta)
        self._check_heads()
        if self.mtp_layers and not self.layers:
            raise ValueError(f"mtp_layers is {self.mtp_layers}, which needs decoder layers before them")

    def _check_heads(self) -> None:
        if self.hidden % self.heads:
            raise ValueError(f"hidden is {self.hidden}, which is not a multiple of heads = {self.heads}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"heads is {self.heads}, which is not a multiple of kv_heads = {self.kv_heads}")
        if self.family == "gpt2" and self.kv_heads not in {None, self.heads}:
            raise ValueError(f"kv_heads is {self.kv_heads}, but gpt2 has one for each of its {self.heads} heads")
        if self.family == "gpt2" and self.rope_scaling is not None:
            raise ValueError("rope_scaling is given, but gpt2 has no rotary embedding")
        if self.family == "llama" and self.hidden // self.heads % 2:
            raise ValueError(f"hidden / heads is {self.hidden // self.heads}, but a rotary embedding needs an even size")

    @property
    def ffn_size(self) -> int:
        """Hidden size of the MLP, the default filled in."""
        return 4 * self.hidden if self.ffn is None else self.ffn

    @property
    def kv_head_count(self) -> int:
        """Heads of keys and values, the default filled in."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def to_json(self) -> dict[str, object]:
        """Give it as data that ``json.dumps`` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object] | str) -> ModelShape:
        """Read what ``to_json`` gives, as data or as JSON text; what has a default may be left out.

        Raises:
            ValueError: It is no JSON object, a field is unknown or missing, or a size is refused.
        """
        return cls(**_read_fields("the model", data, cls))  # type: ignore[arg-type]  # every value is checked above


def check_plan(plan: Plan, shape: ModelShape) -> None:
    """Check that a layout is one of this model, which costs no memory.

    Raises:
        ValueError: It has another number of decoder layers or of MTP layers.
    """
    for what, laid_out, real in (
        ("decoder", plan.num_layers, shape.layers),
        ("mtp", plan.mtp_num_layers, shape.mtp_layers),
    ):
        if laid_out != real:
            raise ValueError(f"the layout {plan.layout!a} has {laid_out} {what} layers, the model has {real}")


def _read_fields(what: str, data: Mapping[str, object] | str, kind: type) -> dict[str, object]:
    try:
        values = load_json(data) if isinstance(data, str) else data
    except ValueError as error:
        raise ValueError(f"{what} is no JSON: {error}") from None
    if not hasattr(values, "keys"):
        raise ValueError(f"{what} is {values!a}, not an object")
    known = [each.name for each in fields(kind)]
    for name in values:
        if name not in known:
            raise ValueError(f"{str(name)!a} is an unknown field of {what}; there are {', '.join(known)}")
    required = ["family", "layers", "hidden", "heads", "vocab"] if kind is ModelShape else []
    missing = [name for name in required if name not in values]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    return with_scaling(values)


def with_scaling(values: Mapping[str, object]) -> dict[str, object]:
    """Make the one field that is an object itself."""
    scaling = values.get("rope_scaling")
    if scaling is None or isinstance(scaling, RopeScaling):
        return {**values}
    read = _read_fields("rope_scaling", scaling, RopeScaling)  # type: ignore[arg-type]  # anything else is refused there
    return {**values, "rope_scaling": RopeScaling(**read)}  # type: ignore[arg-type]  # every value is checked there


def _check_count(name: str, value: object) -> None:
    if value is None and name in {"kv_heads", "ffn"}:
        return
    least = 0 if name in {"layers", "mtp_layers"} else 1
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, not an integer from {least}")


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {value!r}, not a number")  # noqa: TRY004 -- the data is at fault, not the call


def _check_positive(name: str, value: float) -> None:
    _check_number(name, value)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} is {value!r}, not a finite number above 0")
