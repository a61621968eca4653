"""What is found in a launch file: settings, each with its place, and the layouts that they go with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.source import Source

Value: TypeAlias = "str | int | float | bool | list[object] | None"


@dataclass(frozen=True, slots=True)
class Setting:
    """One flag or key of a launch file, with the value that it has when the file runs.

    Attributes:
        name: Megatron's name with dashes, whatever alias the file used: ``pipeline-model-parallel-size``.
        value: A string where the file has text (always so in shell, ``"12"``); a number, a bool or a list where the format has such
            values; True for a flag that stands alone. False says that a switch is off. Aliases with the opposite meaning
            (``no-overlap-p2p-communication``) come with the canonical name and the opposite value.
        source: The value's text as the user means it, with the place of each of its characters in the file; the flag's own text where
            it stands alone; the whole text of the list for a list.
    """

    name: str
    value: Value
    source: Source


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """One layout and the sizes that go with it.

    Attributes:
        layout: The layout, as text or in list form. None where its value cannot be resolved (then an error is among the diagnostics),
            or where the file says the layout in another form, which is then among the settings (``pipeline-layer-partition``,
            ``pipeline-layer-costs``, ``pipeline-chunk-layout``).
        settings: All others that were understood, each name once, in the order of the file.
        diagnostics: PP205 for values that cannot be resolved: an error for a layout, a warning for anything else, which then is not
            among the settings. The spans count in the file's text.
    """

    layout: Setting | None
    settings: tuple[Setting, ...]
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """All that was found in one launch file.

    Attributes:
        file_source: The whole file; the text is empty where it cannot be read.
        configs: One for each layout, in the order of the file.
        diagnostics: PP204 where there is no layout, PP206 where the file cannot be read. The spans count in the file's text.
    """

    file_source: Source
    configs: tuple[LaunchConfig, ...]
    diagnostics: tuple[Diagnostic, ...]
