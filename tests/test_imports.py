"""What a trainer pays for `import ppdsl`, and a shell for `ppdsl check`: the modules that each of them loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEVER = frozenset({"importlib.metadata", "importlib_metadata", "numpy", "pkg_resources", "torch"})
LATER = ("ppdsl.costs", "ppdsl.drawing", "ppdsl.lowering", "ppdsl.proving", "ppdsl.schedules", "ppdsl.simulation")
"""What only schedules need."""
LIST_MODULES = "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
IMPORT = f"import sys\nimport ppdsl\n{LIST_MODULES}"
COMMAND = f"import sys\nfrom ppdsl.cli import main\ntry:\n    sys.exit(main())\nfinally:\n    {LIST_MODULES}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "runtime", "grammar"))
    environment = {name: value for name, value in os.environ.items() if name not in {"CLICOLOR_FORCE", "FORCE_COLOR"}}
    environment["PYTHONPATH"] = path
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_bare_interpreter_loads_none_of_them() -> None:
    """The ground the other tests stand on: no start-up file of this environment loads what they look for."""
    loaded = set(run("-c", f"import sys\n{LIST_MODULES}").stderr.split())
    assert "sys" in loaded
    assert not loaded & (NEVER | {"click", "lark", "ppdsl", "rich", "yaml"})


def test_importing_the_package_loads_no_dependency() -> None:
    done = run("-c", IMPORT)
    loaded = set(done.stderr.split())
    assert done.returncode == 0, done.stderr
    assert "ppdsl" in loaded
    assert not loaded & (NEVER | {"click", "hypothesis", "lark", "rich", "tomli", "tomllib", "yaml"})


def test_a_schedule_is_made_proved_and_simulated_with_names_of_the_package_which_are_loaded_when_used() -> None:
    steps = (
        "import sys, ppdsl\n"
        "before = [name for name in sys.modules if name.startswith(('ppdsl.schedules', 'ppdsl.proving'))]\n"
        "plan = ppdsl.compile_layout('Et|tL', pp=2)\n"
        "schedule = ppdsl.make_schedule(plan, '1f1b', 4)\n"
        "costs = ppdsl.read_costs({'kinds': {'t': {'forward': 1}}})\n"
        "print(before, ppdsl.verify(ppdsl.lower(schedule)), ppdsl.simulate(plan, schedule, costs).makespan)"
    )
    assert run("-c", steps).stdout == "[] proved 15.0\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["check", "Et*3||t*3|t*6NL", "--pp", "2"], 0),
        (["check", "Et*3||t*3|t*6NL", "--pp", "2", "--num-layers", "13"], 1),
        (["check", "Et*3|(t", "--pp", "2", "--output-format", "json"], 1),
        (["check", "Et*3|tL", "--no-such-option"], 2),
    ],
)
def test_a_check_away_from_a_terminal_loads_neither_torch_nor_rich(arguments: list[str], exit_code: int) -> None:
    done = run("-c", COMMAND, *arguments)
    loaded = set(done.stderr.split())
    assert done.returncode == exit_code, done.stderr
    assert {"click", "ppdsl.cli"} <= loaded
    assert not loaded & (NEVER | {"hypothesis", "rich"})
    assert "regex.regex" not in loaded  # lark would load it where it is installed, as it is beside transformers
    assert not {name for name in loaded if name.startswith(LATER)}


def test_a_command_in_this_process_leaves_the_package_regex_as_it_was() -> None:
    calls = "from ppdsl.cli import main\nmain(['check', 'EtL'])\n"
    absent = run("-c", f"import sys\n{calls}print('regex' in sys.modules)")
    loaded = "import sys, types\nsys.modules['regex'] = mine = types.ModuleType('regex')\n"
    present = run("-c", f"{loaded}{calls}print(sys.modules['regex'] is mine)")
    assert (absent.stdout.split()[-1], present.stdout.split()[-1]) == ("False", "True"), absent.stderr + present.stderr


def test_what_a_check_does_not_load_is_what_a_simulation_loads() -> None:
    loaded = run("-c", COMMAND, "simulate", "Et|tL", "--pp", "2", "--microbatches", "2", "--svg", os.devnull).stderr.split()
    assert all(any(name.startswith(later) for name in loaded) for later in LATER)
    assert not set(loaded) & (NEVER | {"hypothesis", "rich"})
