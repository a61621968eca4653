"""Slow and obvious readings of layouts, to judge the fast ones by. Nothing here knows how ppdsl does it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

SEPARATORS = " \t\r\n,"
DIGITS = "0123456789"
MOST_SYMBOLS = 200_000


class TooLargeError(Exception):
    """The text would expand to more than a test should hold."""


class RefusedError(Exception):
    """The text is not in the language."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands between two bars: its layers one by one, and its owner."""

    layers: str
    owner: int | None = None


def expand(text: str) -> list[Stage]:
    """Write a layout out, symbol by symbol.

    Raises:
        RefusedError: It has a syntax fault.
        TooLargeError: It stands for too many symbols.
    """
    body = _strip(text)
    if not body.strip(SEPARATORS):
        raise RefusedError
    if set(body) <= set("MGD+-/*E|") and set(body) & set("MGD+-/"):
        raise RefusedError
    symbols = _Reader(body).read()
    stages: list[list[str]] = [[]]
    for symbol in symbols:
        if symbol == "|":
            stages.append([])
        else:
            stages[-1].append(symbol)
    return _own([_stage(symbols) for symbols in stages])


def _strip(text: str) -> str:
    text = text.strip(SEPARATORS)
    for _ in range(2):
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1].strip(SEPARATORS)
    return text


def _stage(symbols: list[str]) -> Stage:
    owners = [symbol for symbol in symbols if symbol.startswith("@")]
    if not owners:
        return Stage("".join(symbols))
    if len(owners) > 1 or symbols[-1] != owners[0]:
        raise RefusedError
    return Stage("".join(symbols[:-1]), int(owners[0][1:]))


def _own(stages: list[Stage]) -> list[Stage]:
    if len({stage.owner is None for stage in stages}) > 1:
        raise RefusedError
    return stages


class _Reader:
    """Recursive descent, one character at a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> list[str]:
        symbols, _ = self.items()
        if self.at < len(self.text):
            raise RefusedError
        return symbols

    def peek(self) -> str:
        """Skip what means nothing; give the next character that does, its backslash left out, or nothing at the end."""
        while self.text[self.at : self.at + 1] and self.text[self.at] in SEPARATORS:
            self.at += 1
        char = self.text[self.at : self.at + 1]
        if char == "\\" and self.text[self.at + 1 : self.at + 2] and self.text[self.at + 1] in "|()*":
            return self.text[self.at + 1]
        return char

    def take(self) -> str:
        char = self.peek()
        self.at += 2 if self.text[self.at] == "\\" else 1
        return char

    def number(self) -> str:
        char = self.peek()
        digits = ""
        while char and char in DIGITS:
            digits += char
            self.at += 1
            char = self.text[self.at : self.at + 1]
        if not 1 <= len(digits) <= 12:
            raise RefusedError
        return digits

    def items(self) -> tuple[list[str], bool]:
        """Read one or more items, up to a closing parenthesis or the end; tell whether a group is among them."""
        symbols: list[str] = []
        grouped = False
        if self.peek() in ("", ")"):
            raise RefusedError
        while self.peek() not in ("", ")"):
            char = self.take()
            if char == "@":
                symbols.append(f"@{int(self.number())}")
            elif char == "(":
                symbols += self.group()
                grouped = True
            elif char in "EtmNL|":
                symbols += self.repeated([char], removable=self.text[self.at :].lstrip(",").startswith("*"))
            else:
                raise RefusedError
            if len(symbols) > MOST_SYMBOLS:
                raise TooLargeError
        return symbols, grouped

    def group(self) -> list[str]:
        inner, grouped = self.items()
        if self.peek() != ")":
            raise RefusedError
        self.take()
        return self.repeated(inner, removable=not grouped)

    def repeated(self, symbols: list[str], *, removable: bool) -> list[str]:
        if self.peek() != "*":
            return symbols
        self.take()
        times = int(self.number())
        if times == 0 and not removable:
            raise RefusedError
        if len(symbols) * times > MOST_SYMBOLS:
            raise TooLargeError
        return symbols * times


def write_canonical(stages: list[Stage]) -> str:
    """Write stages in canonical form, from the rules of the language: three equal stages or more are a group unless they end the layout."""
    texts = [_write_stage(stage) for stage in stages]
    runs = [(text, len([*same])) for text, same in groupby(texts)]
    grouped = [f"({text}|)*{count}" if count > 2 else f"{text}|" * count for text, count in runs[:-1]]
    text, count = runs[-1]
    return "".join(grouped) + "|".join([text] * count)


def _write_stage(stage: Stage) -> str:
    runs = [(kind, len([*same])) for kind, same in groupby(stage.layers)]
    text = "".join(kind * count if count < 3 else f"{kind}*{count}" for kind, count in runs)
    return text if stage.owner is None else f"{text}@{stage.owner}"


def faults_of_meaning(stages: list[Stage], sizes: dict[str, int | str | None]) -> set[str]:
    """Tell which rules of meaning a layout breaks, from the sentences of the language.

    Args:
        stages: The layout, written out.
        sizes: ``pp``, ``vpp``, ``num_layers``, ``mtp_num_layers`` and ``placement``; what is None or missing is not known.
    """
    layers = "".join(stage.layers for stage in stages)
    broken = {
        "PP302": sizes.get("num_layers") not in (None, layers.count("t")),
        "PP303": layers.count("E") != 1,
        "PP304": layers.count("L") != 1,
        "PP305": "E" in layers and not layers.startswith("E"),
        "PP306": "L" in layers and not layers.endswith("L"),
        "PP307": "m" in layers and "t" in layers[layers.index("m") :],
        "PP308": sizes.get("mtp_num_layers") not in (None, layers.count("m")),
        "PP309": sum("m" in stage.layers for stage in stages) > 1,
        "PP312": _norm_misplaced(layers),
        "PP313": (layers.startswith("E") and not stages[0].layers) or (layers.endswith("L") and not stages[-1].layers),
        **_faults_of_dealing(stages, sizes),
    }
    return {code for code, is_broken in broken.items() if is_broken}


def _norm_misplaced(layers: str) -> bool:
    before, norm, behind = layers.partition("N")
    return bool(norm) and ("N" in behind or "t" in behind or "m" in before or "L" in before)


def _faults_of_dealing(stages: list[Stage], sizes: dict[str, int | str | None]) -> dict[str, bool]:
    owners = deal(stages, sizes)
    pp, vpp = sizes.get("pp"), sizes.get("vpp")
    if stages[0].owner is None and isinstance(pp, int) and len(stages) % pp:
        return {"PP301": True}
    if owners is None:
        return {"PP311": isinstance(vpp, int) and len(stages) % vpp != 0}  # whatever pp is
    ranks = pp if isinstance(pp, int) else max(owners) + 1
    mtp = [number for number, stage in enumerate(stages) if "m" in stage.layers]
    dealt = set(owners) == set(range(ranks))
    return {
        "PP310": any(owners[number] in owners[number + 1 :] for number in mtp),
        "PP311": dealt and vpp not in (None, max(owners.count(rank) for rank in owners)),
        "PP314": not dealt,
    }


def deal(stages: list[Stage], sizes: dict[str, int | str | None]) -> list[int] | None:
    """Give the rank of each stage; None where pp is not known."""
    if stages[0].owner is not None:
        return [stage.owner or 0 for stage in stages]
    pp = sizes.get("pp")
    if not isinstance(pp, int):
        return None
    passes = [divmod(number, pp) for number in range(len(stages))]
    return [pp - 1 - at if sizes.get("placement") == "v" and number % 2 else at for number, at in passes]
