"""The words of a command: ``--flag value``, ``--flag=value``, bare flags, and dotted overrides like ``model.num_layers=12``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.launch_files.flags import find_flag
from ppdsl.launch_files.occurrences import Occurrence
from ppdsl.launch_files.texts import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.launch_files.flags import Flag
    from ppdsl.launch_files.occurrences import Scope
    from ppdsl.launch_files.settings import Value
    from ppdsl.launch_files.texts import Branch, Text

LONGEST_PATH = 20
_MOST_WORDS = 20_000
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_][\w.@/-]*)=")
_LIST_FLAG = re.compile(r"\[?(--[\w-]+),")


@dataclass(frozen=True, slots=True)
class Field:
    """One word of a command, as the program gets it.

    Attributes:
        text: Its characters.
        branch: The branches that it stands in.
        referenced: Whether it comes from a variable, at least in part.
    """

    text: Text
    branch: Branch = ()
    referenced: bool = False


def truth(text: str) -> bool | None:
    """Read a word for true or false; None where it is neither."""
    return _TRUTH.get(text.lower())


def switch_value(flag: Flag, value: Value) -> Value:
    """Give the value of a switch by its canonical name, which may mean the opposite of the spelling."""
    if not flag.switch:
        return value
    told = truth(value) if isinstance(value, str) else value
    return not told if flag.inverted and isinstance(told, bool) else value if told is None else told


def split_fields(text: Text, branch: Branch = (), *, referenced: bool = True) -> list[Field]:
    """Split a text at white space, as the shell does with a variable that is not quoted."""
    return [Field(text.cut(*word.span()), branch, referenced) for word in re.finditer(r"[^ \t\n\r]+", text.chars)]


def spread(fields: Sequence[Field]) -> list[Field | None]:
    """Put the words that a conditional gives a command in place.

    Args:
        fields: The words of a command, some of which may stand for those of several branches.

    Returns:
        The words of each branch behind those of the other, with None around them, so that no flag takes its value from another branch.
    """
    words: list[Field | None] = []
    waiting: list[Field | None] = list(reversed(fields))
    while waiting:
        field = waiting.pop()
        before = words[-1] if words else None
        choice = field.text.choice if field is not None else None
        if field is None or choice is None or len(words) + len(waiting) > _MOST_WORDS or (before and _wants_value(before)):
            words.append(field)
            continue
        for alternative in reversed(choice.choices):
            if alternative.text is not None and alternative.text.chars:
                waiting.append(None)
                waiting += reversed(split_fields(alternative.text, field.branch + alternative.branch))
                waiting.append(None)
    return words


def scan_words(words: Sequence[Field | None], scope: Scope, *, loose: bool = False) -> list[Occurrence]:
    """Find the flags among the words of a command.

    Args:
        words: The words; None where what stands before it has nothing to do with what stands behind.
        scope: The scope of the command.
        loose: Whether this may be prose that only mentions flags: a layout then counts only where it looks like one.

    Returns:
        What they set, in order.
    """
    found: list[Occurrence] = []
    for index, field in enumerate(words):
        if field is not None:
            follower = words[index + 1] if index + 1 < len(words) else None
            found += _scan_word(field, follower, scope)
    return [one for one in found if not (loose and one.flag.holds_layout and _prose(one))]


def _scan_word(field: Field, follower: Field | None, scope: Scope) -> Iterator[Occurrence]:
    override = _OVERRIDE.match(field.text.chars)
    if _is_flag(field):
        yield from _scan_flag(field, follower, scope)
    elif override is not None:
        yield from _scan_override(field, override, scope)


def _wants_value(field: Field) -> bool:
    flag = find_flag(field.text.chars) if field.text.chars.startswith("--") else None
    return flag is not None and not flag.switch


def _scan_flag(field: Field, follower: Field | None, scope: Scope) -> Iterator[Occurrence]:
    chars = field.text.chars
    listed = _LIST_FLAG.match(chars)
    start, end = listed.span(1) if listed else (0, len(chars.partition("=")[0]))
    key = field.text.cut(start, end)
    flag = find_flag(key.chars)
    if flag is None:
        return
    if "=" in chars and not listed:
        yield _occurrence(flag, key, Field(field.text.cut(end + 1, len(chars)), field.branch, field.referenced), scope)
    elif follower is None or _is_flag(follower) or (flag.switch and truth(follower.text.chars) is None):
        value: Value = switch_value(flag, value=True) if flag.switch else None
        yield Occurrence(flag, key, value, key, scope, field.branch, "" if flag.switch else "no value here")
    else:
        text = follower.text
        if listed:
            text = text.cut(0, len(text.chars.rstrip(",]")))
        yield _occurrence(flag, key, Field(text, field.branch, follower.referenced), scope)


def _is_flag(field: Field) -> bool:
    return field.text.chars.startswith("--") or _LIST_FLAG.match(field.text.chars) is not None


def _scan_override(field: Field, override: re.Match[str], scope: Scope) -> Iterator[Occurrence]:
    *path, name = override[1].split(".")
    flag = find_flag(name)
    if flag is None or (flag.weak and not path):
        return
    for part in path[-LONGEST_PATH:]:
        scope = scope.child(part)
    key = field.text.cut(override.end(1) - len(name), override.end(1))
    value = Field(field.text.cut(override.end(), len(field.text.chars)), field.branch, field.referenced)
    if value.text.chars.lower() in {"null", "none", "~"}:
        yield Occurrence(flag, key, None, value.text, scope, value.branch, f"{value.text.chars} here")
    else:
        yield _occurrence(flag, key, value, scope)


def _occurrence(flag: Flag, key: Text, field: Field, scope: Scope) -> Occurrence:
    text = field.text
    if not text.chars and field.referenced:
        return Occurrence(flag, key, None, text, scope, field.branch, "empty here")
    return Occurrence(flag, key, switch_value(flag, text.chars), text, scope, field.branch)


def _prose(occurrence: Occurrence) -> bool:
    chars = occurrence.text.chars.lstrip(" '\"\\")
    return not (chars[:1] in {"E", "[", HOLE} or "|" in chars or (occurrence.flag.kind == "form" and chars[:1].isdigit()))
