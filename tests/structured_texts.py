"""What the tests of JSON, TOML and YAML launch files ask of a text: its layout, its sizes, and where they stand."""

from __future__ import annotations

from ppdsl.launch_files import LaunchConfig, Setting, read_launch_text

KEY = "pipeline_model_parallel_layout"


def configs(text: str, path: str = "run.yaml") -> tuple[LaunchConfig, ...]:
    file = read_launch_text(text, path)
    assert all(one.code == "PP204" for one in file.diagnostics)
    return file.configs


def layout(text: str, path: str = "run.yaml") -> Setting:
    (config,) = configs(text, path)
    assert config.layout is not None
    return config.layout


def sizes(text: str, path: str = "run.yaml") -> list[dict[str, object]]:
    return [{one.name: one.value for one in config.settings} for config in configs(text, path)]


def places(setting: Setting, text: str) -> str:
    """Give the characters of the file at which those of a value stand."""
    return "".join(text[setting.source.position(at)] for at in range(len(setting.source.text)))
