"""From the places that set something to one configuration a layout.

A size belongs to the innermost scope around it that has a layout somewhere inside. A layout takes each size from the innermost scope
around itself that has it. There, sizes that stand directly in the scope come first, and the last of them wins, as on a command line;
those that stand in scopes inside it are taken where they all agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.launch_files.flags import FLAGS
from ppdsl.launch_files.occurrences import compatible, implied
from ppdsl.launch_files.resolving import Resolution, pick, resolve
from ppdsl.launch_files.settings import LaunchConfig, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.texts import Branch
    from ppdsl.source import Source

_SIZES = tuple(dict.fromkeys(flag.name for flag in FLAGS.values() if not flag.holds_layout))
_Shelf = dict[str, list["Occurrence"]]


def assemble(occurrences: Sequence[Occurrence], file: Source) -> tuple[LaunchConfig, ...]:
    """Pair layouts and sizes.

    Args:
        occurrences: All that was found in the file, in the order in which it takes effect.
        file: The whole file.

    Returns:
        One configuration a layout, in the order of the file; the same one twice is given once.
    """
    holders = list(_holders(occurrences))
    room = _Room(occurrences, holders, file)
    forms: dict[int, list[Occurrence]] = {}
    for one in holders:
        if one.flag.kind == "form":
            forms.setdefault(id(one.scope), []).append(one)
    configs: dict[object, LaunchConfig] = {}
    for holder in sorted(_leaders(holders), key=lambda one: one.text.at[0]):
        config = _config(holder, forms.get(id(holder.scope), ()), room, file)
        configs.setdefault(_identity(holder, config), config)
    return tuple(configs.values())


def _identity(holder: Occurrence, config: LaunchConfig) -> object:
    """Give what two runs of one command in a loop or a function have in common."""
    settings = tuple((setting.name, f"{setting.value}", setting.source.position(0)) for setting in config.settings)
    return (tuple(holder.text.at), holder.text.chars, settings, config.diagnostics)


def _holders(occurrences: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Give the places that say a layout, without those that a later one in the same scope replaces."""
    latest: dict[tuple[int, str], list[Occurrence]] = {}
    for one in occurrences:
        if one.flag.holds_layout:
            rivals = latest.setdefault((id(one.scope), one.flag.name), [])
            rivals[:] = [rival for rival in rivals if not implied(one.branch, rival.branch)]
            rivals += _alternatives(one)
    return (one for rivals in latest.values() for one in rivals if one.value is not None)


def _alternatives(occurrence: Occurrence) -> Iterator[Occurrence]:
    choice = occurrence.text.choice
    known = pick(choice, occurrence.branch) if choice else ()
    if not known:
        yield occurrence
    for alternative in known:
        if alternative.text.chars:
            yield replace(occurrence, text=alternative.text, value=alternative.text.chars, branch=occurrence.branch + alternative.branch)


def _leaders(holders: Sequence[Occurrence]) -> Iterator[Occurrence]:
    """Give one place a configuration: each layout, and the first of the other forms where their scope has no layout."""
    led = {id(one.scope) for one in holders if one.flag.kind == "layout"}
    for one in holders:
        if one.flag.kind == "layout":
            yield one
        elif id(one.scope) not in led:
            led.add(id(one.scope))
            yield one


class _Room:
    """The sizes, each on the shelf of the innermost scope around it that has a layout inside."""

    def __init__(self, occurrences: Sequence[Occurrence], holders: Iterable[Occurrence], file: Source) -> None:
        self._occupied: set[int] = set()
        self._direct: dict[int, _Shelf] = {}
        self._loose: dict[int, _Shelf] = {}
        self._known: dict[tuple[int, str, Branch], Resolution | None] = {}
        self._file = file
        for holder in holders:
            self._occupy(holder.scope)
        for one in occurrences:
            if not one.flag.holds_layout:
                self._shelve(one)

    def _occupy(self, scope: Scope | None) -> None:
        while scope is not None and id(scope) not in self._occupied:
            self._occupied.add(id(scope))
            scope = scope.parent

    def _shelve(self, one: Occurrence) -> None:
        scope: Scope | None = one.scope
        while scope is not None and id(scope) not in self._occupied:
            scope = scope.parent
        if scope is one.scope:
            self._direct.setdefault(id(scope), {}).setdefault(one.flag.name, []).append(one)
        elif scope is not None and not one.flag.weak:
            self._loose.setdefault(id(scope), {}).setdefault(one.flag.name, []).append(one)

    def resolution(self, name: str, scope: Scope | None, branch: Branch) -> Resolution | None:
        """Resolve a size for a layout; None where no place gives it."""
        while scope is not None:
            place = (id(scope), name, branch)
            if place not in self._known:
                candidates = self._in_scope(*place)
                self._known[place] = resolve(candidates, branch, self._file) if candidates else None
            known = self._known[place]
            if known is not None:
                return known
            scope = scope.parent
        return None

    def _in_scope(self, scope: int, name: str, branch: Branch) -> list[Occurrence]:
        here = _within(self._direct.get(scope, {}).get(name, ()), branch)
        direct = _last_ones([one for one in here if not one.flag.weak] or here, branch)
        return direct or [one for one in _within(self._loose.get(scope, {}).get(name, ()), branch) if one.value is not None]


def _within(candidates: Iterable[Occurrence], branch: Branch) -> list[Occurrence]:
    """Leave out what another branch says, and features that may be off where the layout is used."""
    return [one for one in candidates if compatible(one.branch, branch) and (one.flag.kind != "feature" or implied(one.branch, branch))]


def _last_ones(direct: list[Occurrence], branch: Branch) -> list[Occurrence]:
    """Give the last place that surely counts, and those behind it that may."""
    certain = [index for index, one in enumerate(direct) if implied(one.branch, branch)]
    return direct[certain[-1] :] if certain else direct


def _config(holder: Occurrence, forms: Sequence[Occurrence], room: _Room, file: Source) -> LaunchConfig:
    resolutions = [resolve([holder], holder.branch, file)]
    if holder.flag.kind == "layout":
        layout, diagnostics = resolutions[0].setting, list(resolutions[0].diagnostics)
        resolutions.clear()
    else:
        layout, diagnostics = None, []
    resolutions += (resolve([one], holder.branch, file) for one in forms if one is not holder and compatible(one.branch, holder.branch))
    resolutions += _sizes(holder, room)
    settings: list[Setting] = []
    for resolution in resolutions:
        diagnostics += resolution.diagnostics
        settings += [resolution.setting] if resolution.setting else []
    settings.sort(key=lambda setting: setting.source.position(0))
    return LaunchConfig(layout, tuple(settings), tuple(diagnostics))


def _sizes(holder: Occurrence, room: _Room) -> Iterator[Resolution]:
    for name in _SIZES:
        resolution = room.resolution(name, holder.scope, holder.branch)
        if resolution is not None:
            yield resolution
