"""The colours of the pictures: one hue a kind of work, told apart also by those who see few colours; a shade for each chunk of a rank."""

from __future__ import annotations

KINDS = "FBIW"
"""The order in which kinds stand in a legend."""

NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}

_HUES = {"F": (212, 72), "B": (28, 82), "I": (8, 72), "W": (150, 42)}
_LIGHTEST, _DARKEST = 70, 46


def color_of(kind: str, chunk: int, chunks: int) -> str:
    """Give the fill of an action as a CSS colour.

    Args:
        kind: F, B, I or W.
        chunk: The number of its stage among the rank's stages, in forward order.
        chunks: How many stages the rank has.
    """
    hue, saturation = _HUES[kind]
    share = chunk / (chunks - 1) if chunks > 1 else 0.5
    lightness = _LIGHTEST - (_LIGHTEST - _DARKEST) * share
    return f"hsl({hue} {saturation}% {lightness:.0f}%)"
