"""What one command of a shell script does to the variables, and which flags it gets."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from ppdsl.launch_files.command_lines import Field, scan_words, split_fields, spread
from ppdsl.launch_files.flags import LAYOUT_NAME, mentions_flag
from ppdsl.launch_files.occurrences import FormatError
from ppdsl.launch_files.shell_values import MOST_CHOICES
from ppdsl.launch_files.shell_words import Characters, Opaque, Reference
from ppdsl.launch_files.texts import Choice, Text, Unknown, hole, spaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.shell_values import Environment
    from ppdsl.launch_files.shell_words import Heredoc, Segment, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
_DECLARING = frozenset({"export", "local", "declare", "readonly", "typeset"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts"})
_PRINTING = frozenset({"echo", "printf", "print", "log", "info", "warn", "error", "die", "usage"})
_YAML_KEY = re.compile(rf"(?m)^[-{{, \t]*['\"]?[\w.]*(?:{LAYOUT_NAME.pattern})['\"]?\s*:")
_MOST_SCRIPTS_INSIDE = 3
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


class Commands:
    """Runs commands one by one, as far as the layout's sake needs it, and keeps what they say.

    Args:
        run_inside: Runs a script that a command was given, with the variables as they are.
        scope: The scope of the script.
        variables: Its variables.
        loose: Whether the script may be prose that only mentions flags.
        depth: How many scripts this one stands inside of.
    """

    def __init__(self, run_inside: Callable[[Text], None], scope: Scope, variables: Environment, *, loose: bool, depth: int) -> None:
        self.variables = variables
        self._run_inside = run_inside
        self._scope = scope
        self._loose = loose
        self._depth = depth
        self._found: list[Occurrence] = []
        self._stored: list[tuple[Field, ...]] = []
        self._latest: dict[str, tuple[Field, ...]] = {}
        self._number = 0

    def finish(self) -> list[Occurrence]:
        """Give all that was found, with what stands in arrays and strings that no command of this script was given."""
        said = {one.key.at[0] for one in self._found}
        for fields in reversed([*self._stored, *self._latest.values()]):
            if not any(mentions_flag(field.text.chars) for field in fields):
                continue
            before = self._found
            self._found = []
            self._scan(_arguments(fields), self._next_scope())
            fresh = [one for one in self._found if one.key.at[0] not in said]
            said.update(one.key.at[0] for one in fresh)
            self._found = before + fresh
        return self._found

    def run(self, words: Sequence[Word], heredocs: Iterable[Heredoc]) -> None:
        """Run one command."""
        for word in words:
            for part in (word, *(word.elements or ())):
                self._run_substituted(part.segments)
        for heredoc in heredocs:
            self._read_heredoc(heredoc, words)
        rest = list(words)
        while rest and _assigned(rest[0]):
            rest.pop(0)
        name = rest[0].plain if rest else ""
        if not rest or name in _DECLARING:
            for word in words:
                self._assign(word)
        elif name in _READING or name == "unset":
            self._forget(rest[1:], unset=name == "unset")
        else:
            self._launch(rest, name)

    def bind_loop(self, name: str, values: Sequence[Word], number: int) -> None:
        """Bind the variable of a loop, which has one of its values after another.

        Args:
            name: The variable.
            values: The words behind ``in``; empty for the arguments of the script.
            number: Which conditional of the script the loop is.
        """
        fields = [field for word in values for field in self.variables.expand(word)]
        place = fields[0].text.at[0] if fields else 0
        known = 0 < len(fields) <= MOST_CHOICES
        # The body of the loop is a branch of that number itself, so the values take its negative.
        choices = tuple(Choice(((-number, index),), field.text) for index, field in enumerate(fields)) if known else ()
        self.variables.set(name, hole(Unknown(place, place, "a loop gives it one value after another", choices=choices)))

    def _next_scope(self) -> Scope:
        self._number += 1
        return self._scope.child(("command", self._number))

    def _launch(self, words: Sequence[Word], name: str) -> None:
        if name in _PRINTING or not any(_matters(word) for word in words):
            return
        fields = [field for word in words for field in self.variables.expand(word)]
        if name == "eval":
            self._run_text(self.variables.joined(spaced(field.text for field in fields[1:]) or [fields[0].text]))
        else:
            self._scan(fields, self._next_scope())

    def _scan(self, fields: Sequence[Field], scope: Scope) -> None:
        words = spread(fields)
        self.variables.spend_on(words)
        self._found += scan_words(words, scope, loose=self._loose)
        for field in fields:
            if mentions_flag(field.text.chars) and any(char.isspace() for char in field.text.chars.strip()):
                self._run_text(field.text)

    def _run_text(self, text: Text, *, loose: bool = False) -> None:
        if self._depth >= _MOST_SCRIPTS_INSIDE:
            return
        self.variables.spend(len(text.chars))
        self._depth += 1
        before, self._loose = self._loose, self._loose or loose
        self._run_inside(text)
        self._loose = before
        self._depth -= 1

    def _run_substituted(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            if isinstance(segment, Opaque) and segment.body is not None and LAYOUT_NAME.search(segment.body.chars):
                self._run_text(segment.body)

    def _read_heredoc(self, heredoc: Heredoc, words: Sequence[Word]) -> None:
        text = self.variables.text_of(heredoc.segments, 0)
        if not LAYOUT_NAME.search(text.chars):
            return
        scan = _reader(text, words)
        found: list[Occurrence] = []
        if scan is not None:
            with suppress(FormatError):
                found = scan(text, self._next_scope())
        self._found += found
        if not found:
            self._run_text(text, loose=True)

    def _assign(self, word: Word) -> None:
        assignment = _assigned(word)
        first = word.segments[0] if word.segments else None
        if assignment is None or not isinstance(first, Characters):
            return
        name, subscript, plus = assignment.groups()
        start = first.text.at[assignment.end()]
        rest = first.text.cut(assignment.end(), len(first.text.chars))
        old = self.variables.get(name) if plus else None
        if subscript:
            self.variables.set(name, hole(Unknown(start, start, f"elements of {name} are assigned one by one")))
        elif word.elements is not None:
            fields = tuple(field for element in word.elements for field in self.variables.expand(element))
            before = old if isinstance(old, tuple) else (Field(old),) if old else ()
            array = before + fields
            self.variables.set(name, array)
            self._store(name, array, before)
        else:
            value = self.variables.text_of((Characters(rest), *word.segments[1:]), start)
            value = self.variables.joined([old, value]) if isinstance(old, Text) else value
            self.variables.set(name, value)
            self._store(name, (Field(value),))

    def _store(self, name: str, fields: tuple[Field, ...], before: tuple[Field, ...] | None = None) -> None:
        """Keep an array or a string for the end, in place of the one that it goes on with."""
        kept = self._latest.get(name)
        if kept is not None and kept is not before:
            self._stored.append(kept)
        self._latest[name] = fields

    def _forget(self, words: Iterable[Word], *, unset: bool) -> None:
        for word in words:
            if _NAME.match(word.plain) and isinstance(first := word.segments[0], Characters):
                place = first.text.span
                unknown = Unknown(place.start, place.end, f"{word.plain} is read when the script runs", external=True)
                self.variables.set(word.plain, None if unset else hole(unknown))


def _reader(text: Text, words: Sequence[Word]) -> Callable[[Text, Scope], list[Occurrence]] | None:
    """Tell what a command is likely to read its heredoc as; None for another script, or for prose."""
    if words and "python" in words[0].plain:
        from ppdsl.launch_files.python_files import scan_python  # noqa: PLC0415 -- loaded where needed

        return scan_python
    if _YAML_KEY.search(text.chars):
        from ppdsl.launch_files.yaml_files import scan_yaml  # noqa: PLC0415 -- the same

        return scan_yaml
    return None


def _matters(word: Word) -> bool:
    """Tell whether a word may hold a flag, or set a variable."""
    return any(
        isinstance(segment, Reference) or (isinstance(segment, Characters) and ("--" in segment.text.chars or "=" in segment.text.chars))
        for segment in word.segments
    )


def _assigned(word: Word) -> re.Match[str] | None:
    first = word.segments[0] if word.segments else None
    return _ASSIGNMENT.match(first.text.chars) if isinstance(first, Characters) and not first.quoted else None


def _arguments(fields: Sequence[Field]) -> list[Field]:
    """Split strings of flags that hold no quotes, as happens where they are used without quotes."""
    return [
        part
        for field in fields
        for part in ([field] if any(char in field.text.chars for char in "'\"\\") else split_fields(field.text, field.branch))
    ]
