"""What the tests of shell launch files ask of a script: its layouts, its sizes, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.launch_files import read_launch_text
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from ppdsl.launch_files import LaunchConfig
    from ppdsl.launch_files.settings import Value

FLAG = "--pipeline-model-parallel-layout"


def configs(script: str) -> tuple[LaunchConfig, ...]:
    return read_launch_text(script, "run.sh").configs


def layouts(script: str) -> list[Value]:
    return [config.layout.value if config.layout else None for config in configs(script)]


def sizes(script: str) -> dict[str, Value]:
    (config,) = configs(script)
    return {setting.name: setting.value for setting in config.settings}


def report(script: str) -> str:
    (config,) = configs(script)
    return render_text(config.diagnostics, read_launch_text(script, "run.sh").file_source)
