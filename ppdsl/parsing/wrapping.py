"""What launch scripts leave around a layout: quotes, white space, shell backslashes; and other languages in its place."""

from __future__ import annotations

from ppdsl.nodes import SEPARATORS

_QUOTES = "'\""
_MOST_QUOTES = 2
_HYBRID_ONLY = frozenset("MGD+-/")
_HYBRID = _HYBRID_ONLY | frozenset("*E|")


def unwrap(text: str) -> tuple[int, int]:
    """Find the layout inside one or two layers of matching quotes and the white space around them.

    Args:
        text: A layout as it was given.

    Returns:
        The half-open range of ``text`` that holds the layout itself.
    """
    start, end = _trim(text, 0, len(text))
    for _ in range(_MOST_QUOTES):
        if end - start < 2 or text[start] not in _QUOTES or text[start] != text[end - 1]:  # noqa: PLR2004 -- two quotes
            break
        start, end = _trim(text, start + 1, end - 1)
    return start, end


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in SEPARATORS:
        start += 1
    while start < end and text[end - 1] in SEPARATORS:
        end -= 1
    return start, end


def is_wrapped(text: str) -> bool:
    """Tell whether a layout carries quotes or backslashes, which are read past (PP607)."""
    return "\\" in text or "'" in text or '"' in text


def is_hybrid_pattern(text: str) -> bool:
    """Tell whether a text is a hybrid-layer pattern of Megatron-LM, where ``E`` is a MoE layer and ``*`` attention."""
    letters = set(text)
    return letters <= _HYBRID and not letters.isdisjoint(_HYBRID_ONLY)
