"""From the text of a shell script to its tokens. Nothing is put in yet, and nothing is refused: what is not closed ends with the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.launch_files.flags import find_flag
from ppdsl.launch_files.shell_dollars import read_ansi_c_quotes, read_backtick, read_dollar
from ppdsl.launch_files.shell_words import Characters, Heredoc, Opaque, Operator, Word
from ppdsl.launch_files.texts import HOLE, Text, Unknown, hole, join

if TYPE_CHECKING:
    from ppdsl.launch_files.shell_words import Segment, Token

_PLAIN = re.compile(rf"[^\s'\"\\$`|&;<>(){HOLE}]+")
_SIMPLE_WORD = re.compile(rf"{_PLAIN.pattern}(?=[ \t\n])")
_QUOTED_PLAIN = re.compile(rf"[^\"\\$`{HOLE}]+")
_BODY_PLAIN = re.compile(rf"[^\\$`{HOLE}]+")
_OPERATOR = re.compile(r";;&|<<-|<<<|\|\||&&|;;|;&|<<|<&|>&|&>>|&>|>>|>\||<>|\|&|[|&;()<>]")
_BLANKS = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\Z")
# What would go on with a layout whose quotes were forgotten, up to the word's end.
_REST_OF_LAYOUT = re.compile(r"[|(][EtmNL*|(),0-9@]*(?![^\s;&\\'\"])")
_DEEPEST = 20


def lex(text: Text) -> list[Token]:
    """Split a shell script into tokens.

    Args:
        text: The script; parts of it may be holes.

    Returns:
        The tokens, comments left out.
    """
    return _Lexer(text, 0).tokens()


def segments_of(text: Text, *, quoted: bool, depth: int) -> tuple[Segment, ...]:
    """Split the inside of a word into segments.

    Args:
        text: The inside.
        quoted: Whether it stands in double quotes, or is the body of a heredoc.
        depth: How deep it stands inside of other expansions.

    Returns:
        The segments; one that is opaque where they stand too deep.
    """
    if depth > _DEEPEST:
        return (Opaque(hole(Unknown(text.at[0], text.at[-1], "expansions inside of expansions are not worked out this deep"))),)
    lexer = _Lexer(text, depth)
    return tuple(lexer.body() if quoted else lexer.rest())


@dataclass(frozen=True, slots=True)
class _Delimiter:
    """The word that ends a heredoc, whether tabs before its lines go, and whether no variable is put in."""

    word: str
    strip: bool
    literal: bool


class _Lexer:
    def __init__(self, text: Text, depth: int) -> None:
        self.text = text
        self.chars = text.chars
        self.at = 0
        self.depth = depth
        self.in_array = False
        self.no_arithmetic = 0  # offset up to which no arithmetic command ends
        self.previous = ""  # the literal beginning of the word before

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        pending: list[_Delimiter] = []
        while self._skip_blanks():
            char = self.chars[self.at]
            if char == "\n":
                self.at += 1
                found += (self._heredoc(delimiter) for delimiter in pending)
                pending.clear()
                found.append(Operator(";"))
            elif char == "#":
                self._skip_comment()
            elif self._skip_arithmetic():
                pass
            else:
                token = self._operator() or self._word()
                found.append(token)
                if isinstance(token, Operator) and token.kind in {"<<", "<<-"} and self._skip_blanks() and self.chars[self.at] != "\n":
                    pending.append(self._delimiter(strip=token.kind == "<<-"))
        return found

    def _skip_blanks(self) -> bool:
        blanks = _BLANKS.match(self.chars, self.at)
        if blanks:
            self.at = blanks.end()
        return self.at < len(self.chars)

    def _skip_comment(self) -> None:
        end = self.chars.find("\n", self.at)
        self.at = end if end >= 0 else len(self.chars)

    def _skip_arithmetic(self) -> bool:
        """Skip an arithmetic command, which ends on its line; tell whether there was one."""
        if not self.chars.startswith("((", self.at) or self.at < self.no_arithmetic:
            return False
        end = self.chars.find("))", self.at)
        newline = self.chars.find("\n", self.at)
        line_end = newline if newline >= 0 else len(self.chars)
        if not 0 <= end < line_end:
            self.no_arithmetic = line_end
            return False
        self.at = end + 2
        return True

    def _operator(self) -> Operator | None:
        if self.chars[self.at] not in "|&;<>()":
            return None
        operator = _OPERATOR.match(self.chars, self.at)
        if operator is None or self.chars.startswith(("<(", ">("), self.at):
            return None
        self.at = operator.end()
        self.previous = ""
        return Operator(operator[0])

    def _delimiter(self, *, strip: bool) -> _Delimiter:
        word = self._word()
        return _Delimiter(word.lead, strip, any(isinstance(one, Characters) and one.quoted for one in word.segments))

    def _heredoc(self, delimiter: _Delimiter) -> Heredoc:
        lines: list[Text] = []
        while self.at < len(self.chars):
            end = self.chars.find("\n", self.at) + 1 or len(self.chars)
            line = self.text.cut(self.at, end)
            self.at = end
            if delimiter.strip:
                line = line.cut(len(line.chars) - len(line.chars.lstrip("\t")), len(line.chars))
            if line.chars.rstrip("\r\n") == delimiter.word:
                break
            lines.append(line)
        body = join(lines) if lines else self.text.cut(self.at, self.at)
        return Heredoc((Characters(body),) if delimiter.literal else segments_of(body, quoted=True, depth=self.depth + 1))

    def _word(self) -> Word:
        simple = _SIMPLE_WORD.match(self.chars, self.at)
        if simple:
            self.previous = simple[0]
            return Word((Characters(self._take(len(simple[0]))),))
        segments: list[Segment] = []
        while self.at < len(self.chars):
            if self.chars[self.at] == "(" and segments and not self.in_array and _ARRAY.match(Word(tuple(segments)).plain):
                return Word(tuple(segments), self._elements())
            if not self._ends_word(segments):
                segments += self._segment()
            elif self.chars[self.at] not in "|(" or not self._cuts_layout_short(segments):
                break
        if not segments:  # an operator where none can stand: take it for a character
            segments = [Characters(self._take(1))]
        word = Word(tuple(segments))
        self.previous = word.lead
        return word

    def _ends_word(self, segments: list[Segment]) -> bool:
        if self.chars[self.at] in "<>" and self.chars.startswith("(", self.at + 1) and not segments:
            return False
        return self.chars[self.at] in " \t\r\n|&;<>()"

    def _cuts_layout_short(self, segments: list[Segment]) -> bool:
        """Take in the rest of a layout whose quotes were forgotten, as something unknown; tell whether there is one."""
        lead = Word(tuple(segments)).lead
        spelling = lead.partition("=")[0] if "=" in lead else self.previous
        flag = find_flag(spelling.rpartition(".")[2])
        rest = _REST_OF_LAYOUT.match(self.chars, self.at) if flag is not None and flag.kind == "layout" else None
        if rest is None:
            return False
        place = self.text.at[self.at]
        reason = f"outside of quotes, the shell takes `{rest[0][0]}` for its own"
        segments.append(Opaque(hole(Unknown(place, place + 1, reason))))
        segments.append(Characters(self._take(len(rest[0])).cut(1, len(rest[0]))))
        return True

    def _elements(self) -> tuple[Word, ...]:
        self.at += 1
        self.in_array = True
        words: list[Word] = []
        while self._skip_blanks():
            char = self.chars[self.at]
            if char == ")":
                self.at += 1
                break
            if char == "#":
                self._skip_comment()
            elif char == "\n":
                self.at += 1
            else:
                words.append(self._word())
        self.in_array = False
        return tuple(words)

    def _take(self, length: int) -> Text:
        self.at += length
        return self.text.cut(self.at - length, self.at)

    def _segment(self, plain: re.Pattern[str] = _PLAIN) -> list[Segment]:
        run = plain.match(self.chars, self.at)
        if run:
            return [Characters(self._take(len(run[0])))]
        quoted = plain is not _PLAIN
        reader = _QUOTED_READERS.get(self.chars[self.at]) if quoted else _READERS.get(self.chars[self.at])
        if reader is not None:
            return reader(self)
        return [Characters(self._take(1), quoted)]

    def _expansion(self, *, quoted: bool = False) -> list[Segment]:
        read = read_backtick if self.chars[self.at] == "`" else read_dollar
        segment, self.at = read(self.text, self.at, quoted=quoted, depth=self.depth)
        return [segment]

    def _quoted_expansion(self) -> list[Segment]:
        return self._expansion(quoted=True)

    def _dollar(self) -> list[Segment]:
        if self.chars.startswith("$'", self.at):
            segments, self.at = read_ansi_c_quotes(self.text, self.at)
            return segments
        if self.chars.startswith('$"', self.at):
            self.at += 1
            return self._double_quotes()
        return self._expansion()

    def _substituted_process(self) -> list[Segment]:
        return self._expansion()

    def _hole(self) -> list[Segment]:
        unknown = self.text.hole_at(self.at)
        text = self._take(1)
        return [Opaque(text)] if unknown else [Characters(text)]

    def _single_quotes(self) -> list[Segment]:
        end = self.chars.find("'", self.at + 1)
        inside = self.text.cut(self.at + 1, end if end >= 0 else len(self.chars))
        self.at = end + 1 if end >= 0 else len(self.chars)
        return [Characters(inside, quoted=True)]

    def _double_quotes(self) -> list[Segment]:
        self.at += 1
        segments: list[Segment] = [Characters(self.text.cut(self.at, self.at), quoted=True)]
        while self.at < len(self.chars) and self.chars[self.at] != '"':
            segments += self._segment(_QUOTED_PLAIN)
        self.at += 1
        return [Characters(one.text, quoted=True) if isinstance(one, Characters) else one for one in segments]

    def _backslash(self) -> list[Segment]:
        newline = re.compile(r"\\\r?\n").match(self.chars, self.at)
        if newline:
            self.at = newline.end()
            return []
        self.at += 1
        return [Characters(self._take(min(1, len(self.chars) - self.at)), quoted=True)]

    def _quoted_backslash(self) -> list[Segment]:
        if self.chars.startswith(("$", "`", '"', "\\", "\n", "\r\n"), self.at + 1):
            return self._backslash()
        return [Characters(self._take(1), quoted=True)]

    def body(self) -> list[Segment]:
        segments: list[Segment] = []
        while self.at < len(self.chars):
            segments += self._segment(_BODY_PLAIN)
        return segments

    def rest(self) -> list[Segment]:
        segments: list[Segment] = []
        while self.at < len(self.chars):
            segments += self._segment()
        return segments


_READERS = {
    "'": _Lexer._single_quotes,  # noqa: SLF001 -- the class's own methods, by the character that they begin with
    '"': _Lexer._double_quotes,  # noqa: SLF001 -- the same
    "\\": _Lexer._backslash,  # noqa: SLF001 -- the same
    "$": _Lexer._dollar,  # noqa: SLF001 -- the same
    "`": _Lexer._expansion,  # noqa: SLF001 -- the same
    "<": _Lexer._substituted_process,  # noqa: SLF001 -- the same
    ">": _Lexer._substituted_process,  # noqa: SLF001 -- the same
    HOLE: _Lexer._hole,  # noqa: SLF001 -- the same
}
_QUOTED_READERS = {
    "\\": _Lexer._quoted_backslash,  # noqa: SLF001 -- the same
    "$": _Lexer._quoted_expansion,  # noqa: SLF001 -- the same
    "`": _Lexer._quoted_expansion,  # noqa: SLF001 -- the same
    HOLE: _Lexer._hole,  # noqa: SLF001 -- the same
}
