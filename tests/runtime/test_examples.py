"""The examples that need ranks do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runtime.launching import run_torchrun

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

FOLDER = Path(__file__).parents[2] / "examples/runtime"
SECONDS = 120


@pytest.mark.parametrize("layout", ["Et*2|t|t|tNL", "Et*5|NL", "E||t*4|tNL"])
def test_the_embedding_example_prints_the_same_under_every_layout(layout: str) -> None:
    file = FOLDER / "embed.py"
    expected = file.read_text(encoding="utf-8").partition("# Prints:\n#\n")[2].replace("# ", "")
    printed = run_torchrun(file, [layout], 2, SECONDS).stdout
    assert re.sub(r"^\[\d\] ", "", printed, flags=re.MULTILINE) == expected
    assert expected.count("\n") == 3
