"""Names for the usual sizes, and sizes from the command line."""

from __future__ import annotations

from dataclasses import fields, replace

from ppdsl_runtime.models.shapes import ModelShape, RopeScaling, with_scaling
from ppdsl_runtime.reading import load_json

PRESETS: dict[str, ModelShape] = {
    "gpt2-124m": ModelShape("gpt2", layers=12, hidden=768, heads=12, vocab=50257, tied=True),
    "gpt2-124m-padded": ModelShape("gpt2", layers=12, hidden=768, heads=12, vocab=50304, tied=True),
    "gpt2-small": ModelShape("gpt2", layers=8, hidden=384, heads=12, vocab=1024),
    "gpt2-tiny": ModelShape("gpt2", layers=4, hidden=32, heads=4, vocab=256, max_positions=128),
    "llama-tiny": ModelShape("llama", layers=4, hidden=32, heads=4, kv_heads=2, ffn=64, vocab=256, max_positions=128),
    "llama3-1b": ModelShape(
        "llama", 16, 2048, 32, 128256, 131072, 8, 8192, tied=True, rope_theta=500_000.0, rope_scaling=RopeScaling(factor=32.0)
    ),
    "llama3-8b": ModelShape("llama", 32, 4096, 32, 128256, 131072, 8, 14336, rope_theta=500_000.0, rope_scaling=RopeScaling()),
}
"""Shapes by name. ``gpt2-small`` has an lm-head of its own, and with it 101 parameters."""


def read_shape(text: str) -> ModelShape:
    """Read a shape from the command line.

    Args:
        text: A preset's name, with changes behind it or without: ``gpt2-124m``, ``llama-tiny,layers=8,tied=true``; or a JSON object.

    Raises:
        ValueError: The preset or a field is unknown, a value cannot be read, or the sizes do not fit each other.
    """
    if text.lstrip().startswith("{"):
        return ModelShape.from_json(text)
    name, *changes = (part.strip() for part in text.split(","))
    if name not in PRESETS:
        raise ValueError(f"there is no model {name!a}; there are {', '.join(PRESETS)}")
    values: dict[str, object] = {}
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals or field.strip() not in {each.name for each in fields(ModelShape)}:
            raise ValueError(
                f"{change!a} is not of the form field=value, with one of {', '.join(each.name for each in fields(ModelShape))}"
            )
        values[field.strip()] = _read_value(field.strip(), value.strip())
    return replace(PRESETS[name], **with_scaling(values))  # type: ignore[arg-type]  # every value is checked there


def _read_value(field: str, text: str) -> object:
    try:
        return text if field == "family" else load_json(text.lower() if text.lower() in {"true", "false"} else text)
    except ValueError:
        raise ValueError(f"{field} is {text[:40]!a}, not a number, true, false or null") from None
