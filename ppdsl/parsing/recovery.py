"""All syntax faults at once: the tokens are fed to the LALR parser one by one, and each one that it refuses is explained.

The parser stays the judge of what is a fault; this module only says which fault it is, and puts something in the faulty
token's place so that the rest can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token, UnexpectedToken

from ppdsl.parsing import rules
from ppdsl.parsing.edits import Choice, Edit, Fault
from ppdsl.parsing.explaining_numbers import UNITS, explain_bad_count, explain_number, explain_repeat
from ppdsl.parsing.suggestions import ascii_digits, meant_by
from ppdsl.source import Span

if TYPE_CHECKING:
    from lark import Lark, TextSlice

    from ppdsl.nodes import Item

MOST_FAULTS = 20
"""How many syntax faults are reported at most."""


class Recovery:
    """One walk over the tokens of a faulty layout.

    Attributes:
        tokens: All tokens of the text.
        faults: What was found so far, in the order of the text.
        last: The type of the token that the parser took last.
    """

    def __init__(self, parser: Lark, text: TextSlice[str]) -> None:
        self._feed = parser.parse_interactive(text, start="layout")
        self.text = text.text
        self.tokens: list[Token] = [*self._feed.lexer_thread.lex(self._feed.parser_state)]
        self.faults: list[Fault] = []
        self.last = ""
        self.open: list[Token] = []

    def run(self) -> tuple[Item, ...] | None:
        """Read every token; give the nodes of what could be read, or None when there are too many faults."""
        at = 0
        while at < len(self.tokens):
            if len(self.faults) >= MOST_FAULTS:
                return None
            at = at + 1 if self._take(self.tokens[at]) else self._explain(at)
        self._close_groups()
        items: tuple[Item, ...] = self._feed.feed_eof()
        return items

    def _take(self, token: Token) -> bool:
        try:
            self._feed.feed_token(token)
        except UnexpectedToken:
            return False
        self.last = token.type
        if token.type == "OPEN":
            self.open.append(token)
        elif token.type == "CLOSE":
            self.open.pop()
        return True

    def stand_in(self, kind: str, text: str, like: Token) -> None:
        """Let the parser take a token that is not written, in the place of ``like``."""
        self._take(Token.new_borrow_pos(kind, text, like))

    def report(self, fault: Fault) -> None:
        """Add a fault."""
        self.faults.append(fault)

    def _explain(self, at: int) -> int:
        """Report the fault at token ``at``; give the index of the token to go on with."""
        token = self.tokens[at]
        if token.type == "STRANGE" and ascii_digits(token) is None:
            return self._strange(at)
        if token.type == "CLOSE":
            return self._close(at)
        if token.type == "REPEAT":
            after = explain_repeat(self, at)
        elif token.type in ("STAR", "AT"):
            after = explain_bad_count(self, at)
        else:
            after = explain_number(self, at)
        if self.last in ("OPEN", ""):
            self.stand_in("SYMBOLS", "t", token)
        return after

    def skip_repeats(self, at: int) -> int:
        """Give the index behind the repeats that stand at ``at``, good or bad."""
        while at < len(self.tokens) and self.tokens[at].type in ("REPEAT", "STAR"):
            at += 1
            while at < len(self.tokens) and self.tokens[at].type == "NUMBER":
                at += 1
        return at

    def _strange(self, at: int) -> int:
        token = self.tokens[at]
        meant = meant_by(token)
        if meant == "*":
            after = self._strange_star(at)
            if after is not None:
                return after
            meant = None
        behind = at + 1
        if meant not in ("(", ")"):
            while behind < len(self.tokens) and self.tokens[behind] == token and _touch(self.tokens[behind - 1], self.tokens[behind]):
                behind += 1
        span = span_of(token, self.tokens[behind - 1])
        self.report(_strange_fault(self.text[span.start : span.end], span, meant, behind - at))
        kinds = {"(": "OPEN", ")": "CLOSE", "|": "SYMBOLS"}
        if meant in kinds:
            if meant != ")" or self.open:
                self.stand_in(kinds[meant], meant, token)
            return behind
        if meant in ("", " ", ","):
            return behind
        self.stand_in("SYMBOLS", meant or "t", token)
        return self.skip_repeats(behind)

    def _strange_star(self, at: int) -> int | None:
        token = self.tokens[at]
        number = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        if self.last not in UNITS or number is None or number.type != "NUMBER":
            return None
        choice = Choice(f"write `*` for `{token}`", (_replace(token, "*"),))
        self.report(Fault(rules.UNKNOWN_SYMBOL, f"unknown symbol `{token}`", span_of(token), (choice,)))
        return self.skip_repeats(at + 2)

    def _close(self, at: int) -> int:
        token = self.tokens[at]
        if not self.open:
            after = self.skip_repeats(at + 1)
            remedy = (Choice("remove it", (_replace(token, ""),)),) if after == at + 1 else ()
            self.report(Fault(rules.UNOPENED, "`)` was never opened", span_of(token), remedy))
            return after
        opening = self.open[-1]
        span = span_of(opening, self.tokens[self.skip_repeats(at + 1) - 1])
        remedy = (Choice("remove it", (Edit(span.start, span.end, ""),)),)
        self.report(Fault(rules.EMPTY_GROUP, "empty group", span_of(opening, token), remedy))
        self.stand_in("SYMBOLS", "t", token)
        self._take(token)
        return at + 1

    def _close_groups(self) -> None:
        for opening in self.open[: MOST_FAULTS - len(self.faults)]:
            self.report(Fault(rules.UNCLOSED, "`(` is never closed", span_of(opening), self._closings(opening)))
        self.faults.sort(key=lambda fault: fault.span)
        while self.open:
            if self.last == "OPEN":
                self.stand_in("SYMBOLS", "t", self.open[-1])
            self.stand_in("CLOSE", ")", self.open[-1])

    def _closings(self, opening: Token) -> tuple[Choice, ...]:
        """Guess where an unclosed group was to end: before a repeat, or at the text's end."""
        behind = [token for token in self.tokens if token.start_pos >= opening.end_pos]  # type: ignore[operator]
        repeats = [token.start_pos for token in behind if token.type == "REPEAT" and token.start_pos != opening.end_pos]
        places = [*dict.fromkeys([*repeats[:1], *repeats[-1:], self.tokens[-1].end_pos])]
        return tuple(Choice("close it", (Edit(place, place, ")"),)) for place in places if place is not None)


def _touch(before: Token, after: Token) -> bool:
    return before.end_pos == after.start_pos


def span_of(first: Token, last: Token | None = None) -> Span:
    """Give the characters from the first to the last token."""
    return Span(first.start_pos or 0, (last or first).end_pos or 0)


def _replace(token: Token, text: str) -> Edit:
    span = span_of(token)
    return Edit(span.start, span.end, text)


def _strange_fault(text: str, span: Span, meant: str | None, count: int) -> Fault:
    choices: tuple[Choice, ...] = ()
    if meant is not None:
        help_text = f"write `{meant * count}` for `{text}`" if meant.strip() else "remove it"
        choices = (Choice(help_text, (Edit(span.start, span.end, meant * count),)),)
    return Fault(rules.UNKNOWN_SYMBOL, f"unknown symbol `{text}`", span, choices)
