"""What is wrong with a repeat, a number or an owner's rank that the parser refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.nodes import SEPARATORS
from ppdsl.parsing import rules
from ppdsl.parsing.edits import Choice, Edit, Fault, shorten
from ppdsl.parsing.suggestions import ascii_digits, meant_by
from ppdsl.source import Span

if TYPE_CHECKING:
    from lark import Token

    from ppdsl.parsing.recovery import Recovery

_MOST_DIGITS = 12
_TOO_MANY = 10**_MOST_DIGITS
_BEFORE_DIGITS = "\\*@" + SEPARATORS
UNITS = ("SYMBOLS", "CLOSE")
"""The tokens that a repeat may follow."""


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


def _type(walk: Recovery, at: int) -> str:
    return walk.tokens[at].type if 0 <= at < len(walk.tokens) else ""


def _first_symbol(token: Token) -> tuple[str, int]:
    """Give the first symbol of a token of symbols, and the offset behind it."""
    width = 2 if token[0] == "\\" else 1
    return str(token[:width]), _start(token) + width


def explain_repeat(walk: Recovery, at: int) -> int:
    """Report a repeat that follows nothing repeatable, or another repeat; give the index to go on with."""
    token = walk.tokens[at]
    behind = walk.skip_repeats(at + 1)
    span = Span(_start(token), _end(walk.tokens[behind - 1]))
    if walk.last == "REPEAT":
        first = walk.tokens[at - 1]
        counts = [_count(part) for part in walk.tokens[at - 1 : behind] if part.type == "REPEAT"]
        product = 1
        for count in counts:
            product = min(product * count, _TOO_MANY)
        choices: tuple[Choice, ...] = ()
        if product < _TOO_MANY and len(counts) == behind - at + 1:
            choices = (Choice(f"multiply the counts: `*{product}`", (Edit(_start(first), span.end, f"*{product}"),)),)
        walk.report(Fault(rules.REPEATED_REPEAT, "a repeat cannot be repeated", span, choices, help="put a group around the first repeat"))
        return behind
    if walk.last == "OWNER":
        help_text: str | None = "repeat the whole stage: `(t@1|)*3`"
        walk.report(Fault(rules.NOT_A_SYMBOL, "an owner cannot be repeated", span, help=help_text))
        return behind
    remedies = _put_behind(walk, span, behind, f"*{_count(token)}")
    walk.report(Fault(rules.NOT_A_SYMBOL, "a repeat where a symbol must stand", span, remedies))
    return behind


def _count(token: Token) -> int:
    return int(token.lstrip(_BEFORE_DIGITS))


def explain_bad_count(walk: Recovery, at: int) -> int:
    """Report a ``*`` or ``@`` without a count of 1 to 12 ASCII digits; give the index to go on with."""
    token = walk.tokens[at]
    behind = _behind_count(walk, at + 1)
    span = Span(_start(token), _end(walk.tokens[behind - 1]))
    written = walk.text[_end(token) : span.end].strip(" \t\r\n,")
    if token.type == "STAR" and walk.last not in UNITS:
        remedy = (Choice("remove it", (Edit(span.start, span.end, ""),)),)
        walk.report(Fault(rules.NOT_A_SYMBOL, "`*` where a symbol must stand", span, remedy))
        return behind
    _report_count(walk, token[-1], span, written)
    if token.type == "AT":
        walk.stand_in("OWNER", "@0", token)
    return behind


def explain_fraction(walk: Recovery, at: int) -> int | None:
    """Report ``*3.5``, a count that is no whole number; None where the character at ``at`` is no point inside a count."""
    if walk.tokens[at] != "." or walk.last not in ("REPEAT", "OWNER") or _type(walk, at + 1) != "NUMBER":
        return None
    sign, behind = ("*" if walk.last == "REPEAT" else "@"), at + 1
    while _type(walk, behind) == "NUMBER" or (_type(walk, behind) == "STRANGE" and walk.tokens[behind] == "."):
        behind += 1
    span = Span(_start(walk.tokens[at - 1]), _end(walk.tokens[behind - 1]))
    _report_count(walk, sign, span, walk.text[span.start : span.end].lstrip("\\*@ \t\r\n,"))
    return behind


def _report_count(walk: Recovery, sign: str, span: Span, written: str) -> None:
    """Report what is written as a count behind ``*``, or as a rank behind ``@``."""
    what = "rank" if sign == "@" else "repeat count"
    choices: tuple[Choice, ...] = ()
    digits = (ascii_digits(written) or "").lstrip("0") or written.strip("*()")
    if written and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        choices = (Choice(f"write `{sign}{digits}`", (Edit(span.start, span.end, f"{sign}{digits}"),)),)
    if not written:
        message = f"{what} missing after `{sign}`"
    elif written.isascii() and written.isdigit():
        message = f"{what} of {len(written)} digits, at most {_MOST_DIGITS} are read"
    else:
        message = f"{what} `{shorten(written)}` is not a number in ASCII digits"
    help_text = None if written else f"write the {what} behind it"
    walk.report(Fault(rules.BAD_COUNT, message, span, choices, help=help_text))


def _behind_count(walk: Recovery, at: int) -> int:
    """Give the index behind what was meant as a count: digits of any script, a sign, another repeat, ``(3)``."""
    if _type(walk, at) == "OPEN" and _type(walk, at + 1) == "NUMBER" and _type(walk, at + 2) == "CLOSE":
        return walk.skip_repeats(at + 3)
    if _type(walk, at) == "STRANGE" and walk.tokens[at] in ("-", "+") and _type(walk, at + 1) == "NUMBER":
        at += 1
    first = at
    while _type(walk, at) in ("STAR", "REPEAT", "NUMBER") or (_type(walk, at) == "STRANGE" and _is_in_count(walk, at, first)):
        at += 1
    return at


def _is_in_count(walk: Recovery, at: int, first: int) -> bool:
    """Tell whether a strange character belongs to a would-be count: a digit, a point in it, or a letter that means nothing else."""
    token = walk.tokens[at]
    touches = walk.tokens[at - 1].end_pos == token.start_pos
    if ascii_digits(token) or (touches and str(token) in {".", "_"}):
        return True
    return touches and token.isalpha() and (at > first or meant_by(token) in {None, "*"})


def explain_number(walk: Recovery, at: int) -> int:
    """Report a number that is no repeat count; give the index to go on with."""
    token, before = walk.tokens[at], walk.tokens[at - 1]
    behind = _behind_digits(walk, at)
    written = walk.text[_start(token) : _end(walk.tokens[behind - 1])]
    if walk.last in ("REPEAT", "OWNER") and before.type == walk.last:
        if token.type == "NUMBER":
            return _split_number(walk, at)
        if _end(before) == _start(token):
            digits = before[-len(before.lstrip(_BEFORE_DIGITS)) :] + written
            _report_count(walk, before.lstrip("\\")[0], Span(_start(before), _start(token) + len(written)), digits)
            return walk.skip_repeats(behind)
    if _type(walk, behind) in ("STAR", "REPEAT"):
        return _count_first(walk, at, behind)
    ascii_form = ascii_digits(written)
    choices: tuple[Choice, ...] = ()
    span = Span(_start(token), _start(token) + len(written))
    if ascii_form and len(ascii_form) <= _MOST_DIGITS:
        repeat = f"*{ascii_form}"
        choices = (Choice(f"write `{repeat}`", (Edit(span.start, span.end, repeat),)),) if walk.last in UNITS else ()
        choices += _put_behind(walk, span, behind, repeat)
    walk.report(Fault(rules.NOT_A_SYMBOL, "a number where a symbol must stand", span, choices))
    return walk.skip_repeats(behind)


def _behind_digits(walk: Recovery, at: int) -> int:
    """Give the index behind the digits of any script that stand at ``at``."""
    while _type(walk, at) == "NUMBER" or (_type(walk, at) == "STRANGE" and ascii_digits(walk.tokens[at])):
        at += 1
    return at


def _count_first(walk: Recovery, at: int, star: int) -> int:
    """Report ``3*t``: the count stands before what it repeats."""
    number = walk.tokens[at]
    span = Span(_start(number), _end(walk.tokens[star]))
    choices: tuple[Choice, ...] = ()
    if _type(walk, star) == "STAR" and number.type == "NUMBER" and len(number) <= _MOST_DIGITS:
        choices = _put_behind(walk, span, star + 1, f"*{number}")
    walk.report(Fault(rules.NOT_A_SYMBOL, "a count before what it repeats", span, choices))
    return walk.skip_repeats(star)


def _put_behind(walk: Recovery, span: Span, unit: int, repeat: str) -> tuple[Choice, ...]:
    """Propose to write a count, which stands at ``span``, behind the symbol or the group that follows it."""
    if _type(walk, unit) == "SYMBOLS":
        symbol, end = _first_symbol(walk.tokens[unit])
        return (Choice(f"write `{symbol}{repeat}`", (Edit(span.start, end, symbol + repeat),)),)
    if _type(walk, unit) == "OPEN" and (close := _matching(walk, unit)) is not None:
        return (Choice(f"put `{repeat}` behind the group", (Edit(span.start, span.end, ""), Edit(close, close, repeat))),)
    return ()


def _matching(walk: Recovery, at: int) -> int | None:
    """Give the offset behind the parenthesis that closes the one at ``at``."""
    depth = 0
    for token in walk.tokens[at:]:
        depth += (token.type == "OPEN") - (token.type == "CLOSE")
        if depth == 0:
            return _end(token)
    return None


def _split_number(walk: Recovery, at: int) -> int:
    """Report ``1,0``: a comma or a space between the digits of one number."""
    behind = _behind_digits(walk, at)
    first = walk.tokens[at - 1]
    start = _end(first) - len(first.lstrip(_BEFORE_DIGITS))
    end = _end(walk.tokens[behind - 1])
    written = walk.text[start:end]
    digits = "".join(char for char in written if char.isdigit())
    gap = "comma" if "," in written else "space"
    notes = (f"Megatron-LM deletes commas first and reads {digits}",) if not written.replace(",", "").strip("0123456789") else ()
    choices: tuple[Choice, ...] = ()
    if len(digits) <= _MOST_DIGITS:
        choices = (Choice(f"if {digits} is meant, write its digits together", (Edit(start, end, digits),)),)
    walk.report(Fault(rules.SPLIT_NUMBER, f"a {gap} inside a number", Span(start, end), choices, notes))
    return walk.skip_repeats(behind)
