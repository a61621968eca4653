"""All syntax faults at once: the tokens are fed to the LALR parser one by one, and each one that it refuses is explained.

The parser stays the judge of what is a fault; this module only says which fault it is, and puts something in the faulty
token's place so that the rest can be read.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from lark import Token, UnexpectedToken

from ppdsl.parsing import rules
from ppdsl.parsing.edits import MOST_FAULTS, Choice, Edit, Fault, shorten
from ppdsl.parsing.explaining_numbers import UNITS, explain_bad_count, explain_fraction, explain_number, explain_repeat
from ppdsl.parsing.suggestions import ascii_digits, meant_by
from ppdsl.source import Span

if TYPE_CHECKING:
    from lark import Lark, TextSlice

    from ppdsl.nodes import Item

_SHORTEST_WORD = 3


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
        lexer = self._feed.lexer_thread
        self.tokens: list[Token] = [*lexer.lex(self._feed.parser_state)]  # type: ignore[no-untyped-call]  # lark types it not
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
        items: tuple[Item, ...] = self._feed.feed_eof()  # type: ignore[no-untyped-call]  # lark types it not
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

    def fill_group(self, like: Token) -> None:
        """Let the parser take a symbol that stands for nothing, where a group would be left empty by faults alone."""
        if self.last == "OPEN":
            self.stand_in("SYMBOLS", "", like)

    def report(self, fault: Fault) -> None:
        """Add a fault."""
        self.faults.append(fault)

    def _explain(self, at: int) -> int:
        """Report the fault at token ``at``; give the index of the token to go on with."""
        token = self.tokens[at]
        if token.type == "STRANGE" and ascii_digits(token) is None:
            behind = explain_fraction(self, at)
            return self._strange(at) if behind is None else behind
        if token.type == "CLOSE":
            return self._close(at)
        if token.type == "REPEAT":
            after = explain_repeat(self, at)
        elif token.type in ("STAR", "AT"):
            after = explain_bad_count(self, at)
        else:
            after = explain_number(self, at)
        self.fill_group(token)
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
        if (behind := self._behind_word(at)) is not None:
            span = span_of(token, self.tokens[behind - 1])
            message = f"unknown symbols `{shorten(self.text[span.start : span.end])}`"
            self.report(Fault(rules.UNKNOWN_SYMBOL, message, span, help="write each layer as one letter: E, t, m, N or L"))
            self.fill_group(token)
            return self.skip_repeats(behind)
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
        if meant is not None:
            self.stand_in("SYMBOLS", meant, token)
        self.fill_group(token)
        return self.skip_repeats(behind)

    def _behind_word(self, at: int) -> int | None:
        """Give the index behind the word that stands at ``at``; None where it is no word, but letters that each mean something."""
        behind = at
        while behind < len(self.tokens) and self.tokens[behind].type == "STRANGE" and self.tokens[behind].isalpha():
            if behind > at and not _touch(self.tokens[behind - 1], self.tokens[behind]):
                break
            behind += 1
        word = self.tokens[at:behind]
        return behind if len(word) >= _SHORTEST_WORD and len(set(word)) > 1 and None in map(meant_by, word) else None

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
            remedy = (Choice("remove it", (_replace(token, ""),)),)
            self.report(Fault(rules.UNOPENED, "`)` was never opened", span_of(token), remedy))
            return after
        opening = self.open[-1]
        span = span_of(opening, self.tokens[self.skip_repeats(at + 1) - 1])
        remedy = (Choice("remove it", (Edit(span.start, span.end, ""),)),)
        self.report(Fault(rules.EMPTY_GROUP, "empty group", span_of(opening, token), remedy))
        self.fill_group(token)
        self._take(token)
        return at + 1

    def _close_groups(self) -> None:
        """Report the groups that are still open, and close them."""
        if not self.open:
            return
        repeats = [token.start_pos or 0 for token in self.tokens if token.type == "REPEAT"]
        written = [opening for opening in self.open if self.text[opening.start_pos or 0] in "\\("]  # not those read for another bracket
        for opening in written[: MOST_FAULTS - len(self.faults)]:
            self.report(Fault(rules.UNCLOSED, "`(` is never closed", span_of(opening), self._closings(opening, repeats)))
        self.faults.sort(key=lambda fault: fault.span)
        while self.open:
            self.fill_group(self.open[-1])
            self.stand_in("CLOSE", ")", self.open[-1])

    def _closings(self, opening: Token, repeats: list[int]) -> tuple[Choice, ...]:
        """Guess where an unclosed group was to end: before a repeat, or at the text's end."""
        inner = bisect_right(repeats, opening.end_pos or 0)
        places = dict.fromkeys([*repeats[inner:][:1], *repeats[inner:][-1:], self.tokens[-1].end_pos or 0])
        return tuple(Choice("close it", (Edit(place, place, ")"),)) for place in places)


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
        help_text = f"write `{shorten(meant * count)}` for `{shorten(text)}`" if meant.strip() else "remove it"
        choices = (Choice(help_text, (Edit(span.start, span.end, meant * count),)),)
    return Fault(rules.UNKNOWN_SYMBOL, f"unknown symbol `{shorten(text)}`", span, choices)
