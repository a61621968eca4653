"""The variables of a shell script, and what words become when the variables are put in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.launch_files.command_lines import Field, split_fields
from ppdsl.launch_files.occurrences import FormatError
from ppdsl.launch_files.shell_words import Characters, Opaque, Reference
from ppdsl.launch_files.texts import HOLE, Choice, Text, Unknown, hole, join, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from ppdsl.launch_files.shell_words import Segment, Word
    from ppdsl.launch_files.texts import Branch

Binding: TypeAlias = "Text | tuple[Field, ...]"

_LONGEST = 1 << 20
_LEAST_BUDGET = 1 << 19
_WORD_COST = 16
MOST_CHOICES = 64
_SPECIAL = frozenset("@*#?$!-")


class Environment:
    """The variables that are set where the reading of a script stands, one layer a branch that is open.

    Args:
        length: Characters of the script. What the variables may grow to, all together, is a multiple of it.
    """

    def __init__(self, length: int) -> None:
        self.layers: list[dict[str, Binding | None]] = [{}]
        self._left = _LEAST_BUDGET + 8 * length

    def get(self, name: str) -> Binding | None:
        """Give what a variable is bound to; None where it is not."""
        for layer in reversed(self.layers):
            if name in layer:
                return layer[name]
        return None

    def set(self, name: str, value: Binding | None) -> None:
        """Bind a variable in the innermost branch."""
        self.layers[-1][name] = value

    def spend(self, amount: int) -> None:
        """Take note of so many characters that are put together or looked at.

        Raises:
            FormatError: They are far more than a script of this length needs.
        """
        self._left -= amount
        if self._left < 0:
            raise FormatError("it is too intricate to be followed without running it")

    def spend_on(self, fields: Iterable[Field | None]) -> None:
        """Take note that words are looked at."""
        self.spend(sum(_WORD_COST + _cost(field.text) for field in fields if field is not None))

    def spend_on_binding(self, value: Binding | None) -> None:
        """Take note that a variable is compared with what it was."""
        self.spend(_WORD_COST + (0 if value is None else len(value) if isinstance(value, tuple) else _cost(value)))

    def joined(self, parts: Sequence[Text]) -> Text:
        """Put texts behind one another, unless that is too long."""
        if len(parts) == 1:
            return parts[0]
        self.spend(sum(map(_cost, parts)))
        if sum(len(part.chars) for part in parts) > _LONGEST:
            return hole(Unknown(parts[0].at[0], parts[0].at[-1], "the variables put in here grow too long"))
        return join(parts)

    def text_of(self, segments: Sequence[Segment], start: int) -> Text:
        """Give the value of an assignment, or of the inside of quotes: nothing is split.

        Args:
            segments: What stands there.
            start: Offset in the file, for a text that is empty.

        Returns:
            The text.
        """
        parts = [Text("", (start,))]
        for segment in segments:
            value = self.value(segment)
            parts += [value] if isinstance(value, Text) else spaced(field.text for field in value)
        filled = [part for part in parts if part.chars]
        return self.joined(filled) if filled else parts[-1]

    def value(self, segment: Segment) -> Binding:
        """Give what a segment stands for."""
        if isinstance(segment, Characters | Opaque):
            return segment.text
        value = self._variable(segment)
        operator = segment.operator
        if operator.endswith("+"):
            return Text("", (segment.start,)) if value is None or _is_empty(value) else self.text_of(segment.operand, segment.start)
        if operator.endswith(("-", "=")) and (value is None or (operator.startswith(":") and _is_empty(value))):
            default = self.text_of(segment.operand, segment.start)
            if operator.endswith("="):
                self.set(segment.name, default)
            return default
        return value if value is not None else _not_set(segment)

    def _variable(self, reference: Reference) -> Binding | None:
        value = self.get(reference.name)
        if isinstance(value, tuple):
            if reference.subscript in {"@", "*"}:
                return value
            index = int(reference.subscript) if reference.subscript[:6].isdecimal() and reference.subscript.isascii() else 0
            return value[index].text if index < len(value) else None
        choice = value.choice if value else None
        if choice is None:
            return value
        if reference.operator.endswith(("-", "=")):
            default = self.text_of(reference.operand, reference.start)
            filled = tuple(replace(one, text=default) if one.text is None else one for one in choice.choices)
            choice = replace(choice, choices=filled)
        return Text(HOLE, (reference.start, reference.end), ((0, choice),))

    def expand(self, word: Word) -> list[Field]:
        """Give the words that a word becomes."""
        row = _Row(self)
        for segment in word.segments:
            value = self.value(segment)
            if isinstance(segment, Characters):
                row.add(segment.text, present=segment.quoted or bool(segment.text.chars))
                continue
            row.referenced = True
            for index, piece in enumerate(self._pieces(segment, value)):
                if index:
                    row.end_word()
                row.add(piece.text, piece.branch, present=isinstance(value, tuple) or bool(piece.text.chars))
        return row.fields()

    def _pieces(self, segment: Segment, value: Binding) -> Sequence[Field]:
        """Split what is put in; a space at its start or end parts it from its neighbours, which an empty piece tells."""
        quoted = isinstance(segment, Reference) and segment.quoted
        if isinstance(value, tuple):
            if isinstance(segment, Reference) and quoted and segment.subscript == "*":
                return [Field(self.joined(spaced(one.text for one in value)))] if value else []
            fields = value if quoted else [part for one in value for part in split_fields(one.text, one.branch)]
            self.spend_on(fields)
            return fields
        if not isinstance(segment, Reference) or quoted or not value.chars or _has_quotes(segment.operand):
            return [Field(value)]
        empty = Field(value.cut(0, 0))
        pieces = split_fields(value)
        before = [empty] if value.chars[0].isspace() else []
        after = [empty] if value.chars[-1].isspace() else []
        return [*before, *pieces, *after]


class _Row:
    """The words that one word becomes, while they are put together."""

    def __init__(self, environment: Environment) -> None:
        self.referenced = False
        self._environment = environment
        self._fields: list[Field] = []
        self._parts: list[Text] = []
        self._branch: Branch = ()
        self._present = False

    def add(self, text: Text, branch: Branch = (), *, present: bool) -> None:
        self._parts.append(text)
        self._branch = branch or self._branch
        self._present |= present

    def end_word(self) -> None:
        if self._present:
            filled = [part for part in self._parts if part.chars] or self._parts[-1:]
            self._fields.append(Field(self._environment.joined(filled), self._branch, self.referenced))
            self._parts, self._branch, self._present = [], (), False

    def fields(self) -> list[Field]:
        self.end_word()
        if not self._fields and self._parts:  # an empty variable by itself: no word to the shell, yet said to be empty
            return [Field(self._parts[-1], self._branch, self.referenced)]
        return self._fields


def _has_quotes(segments: Sequence[Segment]) -> bool:
    return any(isinstance(segment, Characters) and segment.quoted for segment in segments)


def _cost(text: Text) -> int:
    """Tell what it costs to go through a text."""
    return len(text.chars) + sum(_WORD_COST + len(unknown.choices) for _, unknown in text.holes)


def _is_empty(value: Binding) -> bool:
    return not value.chars if isinstance(value, Text) else not value


def _not_set(reference: Reference) -> Text:
    if reference.name[0].isdigit() or reference.name in _SPECIAL:
        reason = "this is given when the script is called"
    else:
        reason = f"{reference.name} is not set in this file"
    return hole(Unknown(reference.start, reference.end, reason, external=True))


def merge(base: Binding | None, ways: Sequence[tuple[Branch, Binding | None]]) -> Binding | None:
    """Give what a variable may be bound to behind a conditional.

    Args:
        base: What it was bound to before.
        ways: What it is bound to at the end of each branch, the way past all of them included.

    Returns:
        The value where all agree; else a text with a hole that has choices, or an array with all elements, each with its branch.
    """
    texts = [(branch, value) for branch, value in ways if not isinstance(value, tuple)]
    if len(texts) < len(ways):
        return _merge_arrays(base, ways)
    first = texts[0][1]
    if first is not None and all(value is not None and value.chars == first.chars and value.holes == first.holes for _, value in texts):
        return first
    if isinstance(base, Text) and base.chars and all(value is not None and _goes_on(base, value) for _, value in texts):
        return _merge_suffixes(base, [(branch, value) for branch, value in texts if value is not None])
    return hole(_choice(texts))


def _goes_on(base: Text, value: Text) -> bool:
    return value.chars.startswith(base.chars) and value.holes[: len(base.holes)] == base.holes


def _merge_suffixes(base: Text, texts: Sequence[tuple[Branch, Text]]) -> Text:
    """Keep what stands before every branch out of the choice."""
    suffixes = [(branch, value.cut(len(base.chars), len(value.chars))) for branch, value in texts]
    parts = [base, hole(_choice(suffixes))]
    if all(suffix.chars[:1].isspace() for _, suffix in suffixes if suffix.chars):
        parts = spaced(parts)
    return join(parts)


def _choice(texts: Sequence[tuple[Branch, Text | None]]) -> Unknown:
    """Make a choice; one between choices becomes a single one."""
    flat: list[Choice] = []
    for branch, text in texts:
        inner = text.choice if text else None
        flat += (Choice(branch + one.branch, one.text) for one in inner.choices) if inner else [Choice(branch, text)]
    choices = [one for one in flat if one.text is not None]
    if len(choices) < len(flat):
        choices.append(Choice((), None))
    last = next((one.text for one in reversed(choices) if one.text is not None), None)
    span = last.span if last else None
    start, end = (span.start, span.end) if span else (0, 0)
    reason = "its value depends on which branch runs"
    return Unknown(start, end, reason, choices=tuple(choices) if len(choices) <= MOST_CHOICES else ())


def _merge_arrays(base: Binding | None, ways: Sequence[tuple[Branch, Binding | None]]) -> tuple[Field, ...]:
    start = base if isinstance(base, tuple) else ()
    arrays = [(branch, _as_array(value)) for branch, value in ways]
    if not all(array[: len(start)] == start for _, array in arrays):
        start = ()
    merged = list(start)
    for branch, array in arrays:
        merged += (replace(field, branch=branch + field.branch) for field in array[len(start) :])
    return tuple(merged)


def _as_array(value: Binding | None) -> tuple[Field, ...]:
    return value if isinstance(value, tuple) else () if value is None else (Field(value),)
