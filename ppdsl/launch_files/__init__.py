"""Finds the layout and the sizes in a real launch file, with their real places. Nothing in the file is ever executed.

Each format has a module that finds the places that set something (``shell``, ``yaml_files``, ``json_files``, ``toml_files``,
``python_files``); ``assembling`` pairs them to one configuration a layout, by rules that are told there.
"""

from __future__ import annotations

from ppdsl.launch_files.reading import read_launch_file, read_launch_text
from ppdsl.launch_files.rules import RULES
from ppdsl.launch_files.settings import LaunchConfig, LaunchFile, Setting

__all__ = ["RULES", "LaunchConfig", "LaunchFile", "Setting", "read_launch_file", "read_launch_text"]
