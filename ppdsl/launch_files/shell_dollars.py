"""What begins with a dollar sign or a backtick in a shell script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ppdsl.launch_files.shell_words import Characters, Opaque, Reference
from ppdsl.launch_files.texts import Text, Unknown, hole

if TYPE_CHECKING:
    from ppdsl.launch_files.shell_words import Segment

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9]|[@*#?$!-]")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z_0-9]*|[0-9]+|[@*])(?:\[([^\]]*)\])?(:?[-=+?]|)")
_TURNS = re.compile(r"[\\'\"(){}$]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_CODES = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")
_LAST_CODE_POINT = 0x10FFFF
_BACKTICK = re.compile(r"[^\\`]*(?:\\.[^\\`]*)*", re.DOTALL)


def read_dollar(text: Text, at: int, *, quoted: bool, depth: int) -> tuple[Segment, int]:
    """Read an expansion.

    Args:
        text: The script.
        at: Offset of the dollar sign, or of the ``<`` or ``>`` of a substituted process.
        quoted: Whether it stands in double quotes.
        depth: How deep it stands inside of other expansions.

    Returns:
        The segment, and the offset behind it.
    """
    chars = text.chars
    name = _NAME.match(chars, at + 1)
    if chars.startswith("$((", at):
        end = _closing(chars, at + 2, ")", quoted=quoted)
        return _opaque(text, at, end, "arithmetic is not worked out"), end
    if chars.startswith("(", at + 1):
        end = _closing(chars, at + 2, ")", quoted=False)
        return Opaque(_opaque(text, at, end, "this is the output of a command").text, text.cut(at + 2, max(at + 2, end - 1))), end
    if chars.startswith("{", at + 1):
        end = _closing(chars, at + 2, "}", quoted=quoted)
        return _braced(text, at, end, quoted=quoted, depth=depth), end
    if name:
        return Reference(name[0], "", "", (), quoted, text.at[at], text.at[name.end()]), name.end()
    return Characters(text.cut(at, at + 1)), at + 1


def read_backtick(text: Text, at: int, *, quoted: bool, depth: int) -> tuple[Segment, int]:
    """Read a command substitution in backticks.

    Args:
        text: The script.
        at: Offset of the first backtick.
        quoted: Not needed; it is read alike.
        depth: Not needed.

    Returns:
        The segment, and the offset behind it.
    """
    del quoted, depth
    body = _BACKTICK.match(text.chars, at + 1)
    inside = body.end() if body else len(text.chars)
    end = min(inside + 1, len(text.chars))
    return Opaque(_opaque(text, at, end, "this is the output of a command").text, text.cut(at + 1, inside)), end


def read_ansi_c_quotes(text: Text, at: int) -> tuple[list[Segment], int]:
    """Read ``$'…'``.

    Args:
        text: The script.
        at: Offset of the dollar sign.

    Returns:
        The segments, with the escapes undone, and the offset behind them.
    """
    chars = text.chars
    at += 2
    segments: list[Segment] = [Characters(text.cut(at, at), quoted=True)]
    while at < len(chars) and chars[at] != "'":
        start = at
        if chars[at] != "\\":
            at = min((end for end in (chars.find("'", at), chars.find("\\", at)) if end >= 0), default=len(chars))
            segments.append(Characters(text.cut(start, at), quoted=True))
            continue
        code = _CODES.match(chars, at + 1)
        at = code.end() if code else min(at + 2, len(chars))
        char = _code_point(code) if code else _ESCAPES.get(chars[start + 1 : at], chars[start + 1 : at])
        segments.append(Characters(Text(char, (text.at[start], text.at[at])[: len(char) + 1]), quoted=True))
    return segments, at + 1


def _code_point(code: re.Match[str]) -> str:
    hexadecimal = code[1] or code[2] or code[3]
    number = int(hexadecimal, 16) if hexadecimal else int(code[4], 8)
    return chr(number) if number <= _LAST_CODE_POINT else "\ufffd"


def _opaque(text: Text, start: int, end: int, reason: str) -> Opaque:
    return Opaque(hole(Unknown(text.at[start], text.at[end], reason)))


def _braced(text: Text, start: int, end: int, *, quoted: bool, depth: int) -> Segment:
    from ppdsl.launch_files.shell_lexing import segments_of  # noqa: PLC0415 -- the two read each other's insides

    head = _BRACED.match(text.chars, start + 2, end)
    stop = end - 1 if text.chars.startswith("}", end - 1) else end
    if head is None or (head.end() < stop and not head[3]):
        return _opaque(text, start, end, "this kind of expansion is not worked out")
    operand = segments_of(text.cut(head.end(), stop), quoted=quoted, depth=depth + 1) if head[3] else ()
    return Reference(head[1], head[2] or "", head[3], operand, quoted, text.at[start], text.at[end])


def _closing(chars: str, at: int, closer: str, *, quoted: bool) -> int:
    """Give the offset behind the bracket that closes an expansion; the text's end where none does."""
    stack = [closer]
    while stack:
        turn = _TURNS.search(chars, at)
        if turn is None:
            return len(chars)
        at = _turn(chars, turn.start(), stack, closer, quoted=quoted)
    return at


def _turn(chars: str, at: int, stack: list[str], closer: str, *, quoted: bool) -> int:
    char, top = chars[at], stack[-1]
    if char == top:
        stack.pop()
    elif char == "\\":
        return at + 2
    elif char == "$" and chars.startswith(("{", "("), at + 1):
        stack.append("}" if chars[at + 1] == "{" else ")")
        return at + 2
    elif top == '"':
        pass
    elif char == '"':
        stack.append('"')
    elif char == "'" and not (quoted and closer == "}"):
        end = chars.find("'", at + 1)
        return end + 1 if end >= 0 else len(chars)
    elif char == "(" and top == ")":
        stack.append(")")
    return at + 1
