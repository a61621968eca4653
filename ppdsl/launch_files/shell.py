"""Shell scripts: what each command is given, told without running one.

Commands are read from top to bottom. A variable has the value that was last assigned above; behind an ``if``, ``case`` or loop it has one
value only where all branches that go on agree (a branch that ends with ``exit`` does not count). A layout that is assigned in a branch is
checked with the sizes of the same branch. A function's body is read where it is called, or at the end where it never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.launch_files.command_lines import scan_words, split_fields
from ppdsl.launch_files.flags import mentions_flag
from ppdsl.launch_files.shell_commands import Commands
from ppdsl.launch_files.shell_flow import Flow
from ppdsl.launch_files.shell_lexing import lex
from ppdsl.launch_files.shell_values import Environment
from ppdsl.launch_files.shell_words import Heredoc, Operator, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.shell_words import Token
    from ppdsl.launch_files.texts import Text

_REDIRECTIONS = frozenset({"<", ">", ">>", "<<<", "<&", ">&", "&>", "&>>", ">|", "<>"})
_OPENING = {"if": "if", "while": "loop", "until": "loop"}
_CLOSING = {"fi": "if", "done": "loop", "esac": "case", "}": "group"}
_PASSED = frozenset({"then", "do", "!", "time", "in"})
_MOST_CALLS_INSIDE = 50
_TOKEN_COST = 16


def scan_shell(text: Text, scope: Scope, *, loose: bool = False, depth: int = 0) -> list[Occurrence]:
    """Find what a shell script sets.

    Args:
        text: The script; also a single command line, as other files hold them.
        scope: The scope that it stands in.
        loose: Whether it may be prose that only mentions flags.
        depth: How many scripts it stands inside of.

    Returns:
        What the commands, arrays and strings of flags in it set.
    """
    script = _Script(scope, len(text.chars), loose=loose, depth=depth)
    script.run(lex(text))
    return script.finish()


def scan_string(text: Text, scope: Scope) -> list[Occurrence]:
    """Find what a string sets that may be a command, a list of arguments, or prose.

    Args:
        text: The string, as another format holds it.
        scope: The scope that it stands in.

    Returns:
        What it sets.
    """
    if not mentions_flag(text.chars):
        return []
    if text.chars.lstrip().startswith("--") and not any(char in text.chars for char in "'\"\\$"):
        return scan_words(split_fields(text, referenced=False), scope, loose=True)
    return scan_shell(text, scope, loose=True, depth=1)


class _Script:
    def __init__(self, scope: Scope, length: int, *, loose: bool, depth: int) -> None:
        variables = Environment(length)
        self.commands = Commands(self.run_inside, scope, variables, loose=loose, depth=depth)
        self.flow = Flow(variables)
        self.functions: dict[str, Sequence[Token]] = {}
        self.called: set[str] = set()
        self.running: list[str] = []

    def finish(self) -> list[Occurrence]:
        for name, body in list(self.functions.items()):
            if name not in self.called:
                self.run_again(body)
        return self.commands.finish()

    def run_inside(self, text: Text) -> None:
        """Run a script that a command of this one was given."""
        self.run_again(lex(text))

    def run_again(self, tokens: Sequence[Token]) -> None:
        """Go through a list of commands that may be gone through many times, if that does not grow beyond measure."""
        self.commands.variables.spend(_TOKEN_COST * (1 + len(tokens)))
        self.run(tokens)

    def run(self, tokens: Sequence[Token]) -> None:
        """Go through a list of commands."""
        outer = len(self.flow)
        reading = _Reading(self, tokens)
        while reading.step():
            pass
        while len(self.flow) > outer:
            self.flow.close()

    def call(self, name: str) -> None:
        """Run a function of the script, where there is one of that name."""
        body = self.functions.get(name)
        if body is not None and name not in self.running and len(self.running) < _MOST_CALLS_INSIDE:
            self.called.add(name)
            self.running.append(name)
            self.run_again(body)
            self.running.pop()


class _Reading:
    """The reading of one list of commands."""

    def __init__(self, script: _Script, tokens: Sequence[Token]) -> None:
        self.script = script
        self.flow = script.flow
        self.tokens = tokens
        self.at = 0
        self.words: list[Word] = []
        self.heredocs: list[Heredoc] = []
        self.optional = False  # whether `&&` or `||` stands before the command
        self.patterns = False  # whether the patterns of a case are being read
        self.pattern = ""

    def step(self) -> bool:
        """Read one token; tell whether there was one."""
        if self.at >= len(self.tokens):
            self.end_command("")
            return False
        token = self.tokens[self.at]
        self.at += 1
        if isinstance(token, Heredoc):
            self.heredocs.append(token)
        elif self.patterns:
            self.read_pattern(token)
        elif isinstance(token, Word):
            self.read_word(token)
        elif token.kind in _REDIRECTIONS:
            self.at += isinstance(self.peek(), Word)
        elif token.kind == "(" and len(self.words) == 1 and self.peek() == Operator(")"):
            self.at += 1
            self.define(self.words.pop().plain)
        elif token.kind not in {"<<", "<<-"}:
            self.end_command(token.kind)
        return True

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def read_word(self, word: Word) -> None:
        plain = "" if self.words else word.plain
        if plain in _OPENING:
            self.flow.open(_OPENING[plain])
        elif plain in {"elif", "else"}:
            self.flow.turn(exhaustive=plain == "else")
        elif plain == "{":
            self.flow.open("group", flat=not self.optional)
            self.optional = False
        elif plain in _CLOSING:
            if self.flow.kind == _CLOSING[plain]:
                self.flow.close()
        elif plain in {"for", "select"}:
            self.open_loop()
        elif plain == "case":
            self.open_case()
        elif plain == "function":
            name = self.peek()
            self.at += 1
            self.define(name.plain if isinstance(name, Word) else "")
        elif plain not in _PASSED:
            self.words.append(word)

    def end_command(self, operator: str) -> None:
        words, heredocs = self.words, self.heredocs
        self.words, self.heredocs = [], []
        if words or heredocs:
            if self.optional:
                self.flow.open("if")
            self.run_command(words, heredocs)
            if self.optional:
                self.flow.close()
        self.optional = operator in {"&&", "||"} or (self.optional and not words and operator == ";")
        if operator in {";;", ";&", ";;&"} and self.flow.kind == "case":
            self.patterns = True

    def run_command(self, words: list[Word], heredocs: list[Heredoc]) -> None:
        name = words[0].plain if words else ""
        if name in {"exit", "return", "continue", "break"}:
            self.flow.end_script()
        else:
            self.script.call(name)
            self.script.commands.run(words, heredocs)

    def open_loop(self) -> None:
        values: list[Word] = []
        name = self.peek()
        if isinstance(name, Word):
            self.at += 1
        while isinstance(word := self.peek(), Word) and word.plain != "do":
            values.append(word)
            self.at += 1
        if isinstance(name, Word):
            self.script.commands.bind_loop(name.plain, values[1:], self.flow.next_number)
        self.flow.open("loop")

    def open_case(self) -> None:
        while (token := self.peek()) is not None:
            self.at += 1
            if isinstance(token, Word) and token.plain == "in":
                break
        self.flow.open("case")
        self.patterns = True
        self.pattern = ""

    def read_pattern(self, token: Token) -> None:
        """Read a part of ``pattern | pattern)``, which begins a branch, or the ``esac`` that ends them."""
        if isinstance(token, Word) and token.plain == "esac":
            self.patterns = False
            self.flow.close()
        elif isinstance(token, Word):
            self.pattern = token.plain
        elif token == Operator(")"):
            self.patterns = False
            self.flow.turn(exhaustive=self.pattern == "*")

    def define(self, name: str) -> None:
        """Keep a function's body for later."""
        while self.peek() == Operator(";"):
            self.at += 1
        brace = self.peek()
        if not (isinstance(brace, Word) and brace.plain == "{"):
            return
        start, deep = self.at, 0
        while (token := self.peek()) is not None:
            self.at += 1
            if isinstance(token, Word):
                deep += (token.plain == "{") - (token.plain == "}")
                if not deep:
                    break
        self.script.functions[name] = self.tokens[start : self.at]
