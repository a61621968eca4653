"""Layouts found in launch files, each with the sizes that go with it; what was typed overrides the file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.cli.inputs import STDIN, Entry, place_on_page, read_stdin_text
from ppdsl.diagnostics import Diagnostic
from ppdsl.forms import convert_layer_lists, read_cost_list, read_layer_lists, read_owned_chunks, read_partition
from ppdsl.launch_files import read_launch_file, read_launch_text
from ppdsl.sizes import conflicting_forms
from ppdsl.validation.targets import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ppdsl.cli.options import Values
    from ppdsl.forms import Form
    from ppdsl.launch_files import LaunchConfig, LaunchFile, Setting
    from ppdsl.options import Options
    from ppdsl.source import Source

SIZES = {
    "pipeline-model-parallel-size": "pp",
    "virtual-pipeline-model-parallel-size": "vpp",
    "num-virtual-stages-per-pipeline-rank": "vpp",
    "num-layers": "num_layers",
    "mtp-num-layers": "mtp_num_layers",
    "microbatch-group-size-per-vp-stage": "microbatch_group_size",
}
"""Flags of launch files, and the fields of ``Options`` that they are."""

_BATCH = ("global-batch-size", "micro-batch-size", "data-parallel-size")
_UNTIED = "untie-embeddings-and-output-weights"
_FORMS = ("pipeline-layer-partition", "pipeline-layer-costs", "pipeline-chunk-layout")
_MOST_DIGITS = 30


class Origin(NamedTuple):
    """Where a value comes from that a layout is checked against.

    Attributes:
        name: The value's option, without its dashes.
        value: The value; None for a flag that has none.
        place: An option, ``--pp``, or a line of a file, ``run.sh:12``.
    """

    name: str
    value: int | str | bool | None
    place: str


def read_launches(paths: Iterable[str], typed: Options, values: Values) -> Iterator[Entry]:
    """Read launch files.

    Args:
        paths: The files; ``-`` is standard input.
        typed: What was typed.
        values: The same, as click gives it.

    Yields:
        An entry for each layout, in the order of the files; an entry without one where there is a fault.
    """
    for path in paths:
        file = _read_file(path)
        if isinstance(file, Diagnostic):
            yield Entry(None, typed, diagnostics=(file,))
            continue
        kept = tuple(each for each in file.diagnostics if not (values.get("allow_none") and each.code == "PP204"))
        if kept:
            yield Entry(None, typed, file.file_source, kept)
        for config in file.configs:
            yield _read_config(config, file.file_source, typed)


def _read_file(path: str) -> LaunchFile | Diagnostic:
    if path != "-":
        return read_launch_file(path)
    text = read_stdin_text()
    return text if isinstance(text, Diagnostic) else read_launch_text(text, STDIN)


def _read_config(config: LaunchConfig, page: Source, typed: Options) -> Entry:
    found = _Found(config.settings)
    options = found.options(typed)
    layout, written, faults = _read_layout(config)
    diagnostics = (*config.diagnostics, *found.faults, *faults)
    if written is not None and written.name in _FORMS:
        conflict = conflicting_forms([f"--{written.name}"], placement=typed.placement is not None)
        layout, diagnostics = (None, (*diagnostics, conflict)) if conflict is not None else (layout, diagnostics)
    return Entry(layout, options, page, diagnostics, None if written is None else written.source, found.origins(typed))


def _read_layout(config: LaunchConfig) -> tuple[Source | Form | None, Setting | None, tuple[Diagnostic, ...]]:
    """Give the layout, the setting that says it, and what is wrong with it."""
    setting = config.layout
    if setting is None:
        setting = next((each for each in config.settings if each.name in _FORMS), None)
    if setting is None:
        return None, None, ()
    if isinstance(setting.value, str) and setting.name not in _FORMS:
        return setting.source, setting, ()
    form = _read_form(setting)
    if isinstance(form, Diagnostic):
        return None, setting, (replace(form, span=place_on_page(setting.source)),)
    return form, setting, ()


def _read_form(setting: Setting) -> Form | Diagnostic:
    value = setting.value
    if setting.name == "pipeline-layer-partition":
        return read_partition(_as_text(value))
    if setting.name == "pipeline-layer-costs":
        return read_cost_list(_as_text(value))
    if setting.name == "pipeline-chunk-layout":
        return read_owned_chunks(_as_text(value))
    return convert_layer_lists(value) if isinstance(value, list) else read_layer_lists(_as_text(value))


def _as_text(value: object) -> str:
    """Write a file's value as it would be typed."""
    if isinstance(value, list) and not any(isinstance(each, list) for each in value):
        return ",".join(str(each) for each in value)
    return str(value)


def _where(source: Source) -> str:
    return f"{source.name}:{source.line_column(0)[0]}"


class _Found:
    """The sizes and features that a file gives a layout, each with its place."""

    def __init__(self, settings: tuple[Setting, ...]) -> None:
        self.faults: list[Diagnostic] = []
        self._sizes: dict[str, tuple[int, str]] = {}
        self._features: dict[str, tuple[str | None, str]] = {}
        self._untied: tuple[bool, str] | None = None
        batch: dict[str, tuple[int, str]] = {}
        for setting in settings:
            if setting.value is None or setting.name in _FORMS:
                continue
            where = _where(setting.source)
            if setting.name == _UNTIED:
                self._untied = (_is_true(setting.value), where)
                continue
            if setting.name in SIZES or setting.name in _BATCH:
                self._take_size(setting, where, batch)
            if setting.name in FEATURES:
                self._features[setting.name] = (None if setting.value is True else _as_text(setting.value), where)
        self._count_microbatches(batch)

    def _take_size(self, setting: Setting, where: str, batch: dict[str, tuple[int, str]]) -> None:
        size = _as_number(setting.value)
        if size is None:
            shown = _as_text(setting.value)[:40]
            self.faults.append(
                Diagnostic("PP205", "warning", f"{setting.name} is '{shown}', not a whole number", place_on_page(setting.source))
            )
        elif setting.name in _BATCH:
            batch[setting.name] = (size, where)
        else:
            self._sizes.setdefault(SIZES[setting.name], (size, where))

    def _count_microbatches(self, batch: dict[str, tuple[int, str]]) -> None:
        """Microbatches are what a rank's share of the global batch is made of; all three sizes must be known, and fit."""
        if len(batch) < len(_BATCH):
            return
        whole, micro, ranks = (batch[name][0] for name in _BATCH)
        if micro > 0 and ranks > 0 and whole > 0 and whole % (micro * ranks) == 0:
            self._sizes["microbatches"] = (whole // (micro * ranks), batch[_BATCH[0]][1])

    def options(self, typed: Options) -> Options:
        """Give what to check against: what was typed, and the file's values for the rest."""
        features = {name: value for name, (value, _) in self._features.items()} | dict(typed.features)
        tied = typed.tied_embeddings
        if tied is None and self._untied is not None:
            tied = not self._untied[0]
        return replace(
            typed,
            pp=self._size("pp", typed.pp),
            vpp=self._size("vpp", typed.vpp),
            num_layers=self._size("num_layers", typed.num_layers),
            mtp_num_layers=self._size("mtp_num_layers", typed.mtp_num_layers),
            microbatches=self._size("microbatches", typed.microbatches),
            microbatch_group_size=self._size("microbatch_group_size", typed.microbatch_group_size),
            features=tuple(features.items()),
            tied_embeddings=tied,
        )

    def _size(self, name: str, typed: int | None) -> int | None:
        return self._sizes[name][0] if typed is None and name in self._sizes else typed

    def origins(self, typed: Options) -> tuple[Origin, ...]:
        """Say where each value comes from."""
        origins = []
        for name in ("pp", "vpp", "num_layers", "mtp_num_layers", "microbatches", "microbatch_group_size", "schedule", "placement"):
            flag, value = name.replace("_", "-"), getattr(typed, name)
            if value is not None:
                origins.append(Origin(flag, value, f"--{flag}"))
            elif name in self._sizes:
                origins.append(Origin(flag, *self._sizes[name]))
        if typed.tied_embeddings is not None:
            origins.append(_tying(tied=typed.tied_embeddings))
        elif self._untied is not None:
            origins.append(_tying(tied=not self._untied[0], place=self._untied[1]))
        given = dict(typed.features)
        origins += (Origin(name, *found) for name, found in self._features.items() if name not in given)
        origins += (Origin(name, value, "--with") for name, value in given.items())
        return tuple(origins)


def _tying(*, tied: bool, place: str | None = None) -> Origin:
    name = "tied-embeddings" if tied else "untied-embeddings"
    return Origin(name, None, place or f"--{name}")


def _is_true(value: object) -> bool:
    return str(value).lower() not in {"false", "0", "no", "off"}


def _as_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = str(value).strip()
    digits = text.removeprefix("-").replace("_", "")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else None
