"""The wheel: what is in it, and that it works without torch on every Python that is promised."""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
CHECK = ["check", "Et*3||t*3|t*6NL", "--pp", "2"]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command in an environment that knows nothing of this checkout, and give what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from that, so that both are known to be complete."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def names(wheel: Path) -> frozenset[str]:
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_three_packages_and_nothing_else(names: frozenset[str]) -> None:
    top = {re.sub(r"-[\d.]+\.dist-info$", ".dist-info", name.split("/")[0]) for name in names}
    assert top == {"ppdsl", "ppdsl_grammar", "ppdsl_runtime", "ppdsl.dist-info"}


def test_the_wheel_holds_every_file_of_the_packages(names: frozenset[str]) -> None:
    packages = [ROOT / "ppdsl", ROOT / "grammar/ppdsl_grammar", ROOT / "runtime/ppdsl_runtime"]
    files = {path.relative_to(package.parent).as_posix() for package in packages for path in package.rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == {name for name in files if "__pycache__" not in name}
    assert {"ppdsl_grammar/layout.lark", "ppdsl/py.typed", "ppdsl_grammar/py.typed", "ppdsl_runtime/py.typed"} <= names


def test_the_licence_is_an_expression_and_no_text(metadata: Message, names: frozenset[str]) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") is None
    assert not [name for name in names if re.search(r"licen[cs]e|copying|notice", name, re.IGNORECASE)]


def test_the_metadata_names_no_torch_outside_the_extra(metadata: Message) -> None:
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(re.split(r"[^\w-]", line)[0].lower() for line in required) == ["click", "lark", "pyyaml", "rich", "tomli"]
    assert metadata.get_all("Provides-Extra") == ["runtime", "testing"]
    assert metadata["Requires-Python"] == ">=3.10"


def candidates(version: str) -> Iterator[Path]:
    """Look for a Python of this version on the search path and among pyenv's."""
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    pyenv = shutil.which("pyenv")
    told = os.environ.get("PYENV_ROOT") or (run(pyenv, "root").strip() if pyenv else "")
    if told:
        yield from sorted(Path(told).glob(f"versions/{version}.*/bin/python{version}"))


def find_python(version: str) -> Path | None:
    """Give the first candidate that runs and can make an environment: pyenv leaves commands on the path that do neither."""
    ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for python in candidates(version):
        if python.exists():
            answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if answer.returncode == 0 and answer.stdout.strip() == version:
                return python
    return None


def install(folder: Path, python: Path, *arguments: str | Path) -> Path:
    """Make an environment that holds only the wheel and what it needs; give the folder of its commands."""
    run(python, "-m", "venv", "--without-pip", folder)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    run(sys.executable, "-m", "pip", "--python", commands / "python", "install", "--quiet", *arguments)
    return commands


@pytest.fixture(scope="module", params=["3.10", "3.11", "3.12", "3.13"])
def commands(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment of each Python that is promised and that this machine has."""
    version: str = request.param
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine, so nothing is known of it")
    return install(tmp_path_factory.mktemp(f"python{version}-"), python, "-c", CONSTRAINTS, wheel)


def test_the_installed_command_checks_a_layout_without_torch(commands: Path, tmp_path: Path) -> None:
    run(commands / "ppdsl", *CHECK, cwd=tmp_path)
    run(commands / "python", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is not None)", cwd=tmp_path)


def test_the_installed_command_loads_no_package_metadata(commands: Path, tmp_path: Path) -> None:
    code = "import sys\nfrom ppdsl.cli import main\ntry:\n    main()\nfinally:\n    print(*sorted(sys.modules), sep='\\n')"
    loaded = run(commands / "python", "-c", code, *CHECK, cwd=tmp_path).split()
    assert "ppdsl.cli" in loaded
    assert not {"importlib.metadata", "importlib_metadata", "pkg_resources", "rich"} & set(loaded)


def test_the_oldest_versions_allowed_do(wheel: Path, metadata: Message, tmp_path: Path) -> None:
    oldest = [re.sub(r">=([\d.]+)", r"==\1", re.sub(r",?<[\d.]+,?", "", line)) for line in metadata.get_all("Requires-Dist", [])]
    pins = [line for line in oldest if "extra ==" not in line]
    assert pins
    assert all("==" in line for line in pins)
    commands = install(tmp_path / "oldest", Path(sys.executable), wheel, *pins)
    run(commands / "ppdsl", *CHECK, cwd=tmp_path)
    run(commands / "ppdsl", *CHECK, "--color", "always", cwd=tmp_path)


def hooks() -> list[dict[str, str]]:
    read: list[dict[str, str]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return read


def test_pre_commit_is_offered_both_hooks() -> None:
    assert [hook["id"] for hook in hooks()] == ["ppdsl-check", "ppdsl-fmt"]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_a_pre_commit_hook_forgives_files_without_a_layout(hook: dict[str, str], commands: Path) -> None:
    command, *arguments = shlex.split(hook["entry"])
    run(commands / command, *arguments, "pyproject.toml", ".pre-commit-hooks.yaml")
