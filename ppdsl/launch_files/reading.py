"""From a path to what its file says: reading, decoding, and choosing the format."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label
from ppdsl.launch_files.assembling import assemble
from ppdsl.launch_files.flags import LAYOUT_NAME
from ppdsl.launch_files.occurrences import FormatError, Scope
from ppdsl.launch_files.rules import NO_LAYOUT, UNREADABLE
from ppdsl.launch_files.settings import LaunchFile
from ppdsl.launch_files.texts import whole
from ppdsl.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.launch_files.occurrences import Occurrence

_LARGEST = 8 << 20
_FORMATS = {
    "bash": "shell",
    "json": "json",
    "ksh": "shell",
    "py": "python",
    "sbatch": "shell",
    "sh": "shell",
    "slurm": "shell",
    "toml": "toml",
    "yaml": "yaml",
    "yml": "yaml",
    "zsh": "shell",
}
_MOST_REMARKS = 3


def read_launch_file(path: str) -> LaunchFile:
    """Find the layouts and sizes in a launch file.

    Args:
        path: Path of the file; its extension, or else its first line, tells the format. Any other is read as a shell script.

    Returns:
        What was found. It never raises for bad input: a file that cannot be read, decoded or parsed gives PP206, one without a layout
        PP204.
    """
    try:
        text = _decode(_read(path))
    except OSError as error:
        return _refuse("", path, f"cannot read {path}: {(error.strerror or 'unknown error').lower()}")
    except FormatError as error:
        return _refuse("", path, f"cannot read {path}: {error.message}")
    return read_launch_text(text, path)


def read_launch_text(text: str, path: str) -> LaunchFile:
    """Find the layouts and sizes in the text of a launch file.

    Args:
        text: The text.
        path: Its name, for messages; the extension tells the format.

    Returns:
        What was found, as by ``read_launch_file``.
    """
    fault = _fault(text)
    if fault is not None:
        return _refuse(text, path, f"cannot read {path}: {fault[0]}", fault[1])
    file = Source(text, path)
    if not LAYOUT_NAME.search(text):
        return LaunchFile(file, (), (_no_layout(path, ()),))
    try:
        found = _scan(text, _format(text, path))
    except FormatError as error:
        return _refuse(text, path, f"cannot read {path}: {error.message}", error.start)
    configs = assemble(found, file)
    return LaunchFile(file, configs, () if configs else (_no_layout(path, found),))


def _read(path: str) -> bytes:
    try:
        status = os.stat(path)  # noqa: PTH116 -- pathlib takes longer to load than this to run
    except ValueError:  # a NUL in the path
        raise FormatError("no file can have this name") from None
    if stat.S_ISDIR(status.st_mode):
        raise FormatError("it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise FormatError("it is not a regular file")
    if status.st_size > _LARGEST:
        raise FormatError(f"it is larger than {_LARGEST >> 20} MiB")
    with open(path, "rb") as file:  # noqa: PTH123 -- the same
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise FormatError(f"it is larger than {_LARGEST >> 20} MiB")
    return content


def _decode(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise FormatError(f"it is not valid UTF-16: byte {error.start} cannot be decoded") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = "it is a binary file" if b"\0" in content else "it is not valid UTF-8"
        raise FormatError(f"{kind}: byte {error.start} cannot be decoded") from None


def _fault(text: str) -> tuple[str, int] | None:
    """Tell what makes a text none that a launch file can hold, and where."""
    at = text.find("\0")
    if at >= 0:
        return "it holds a NUL character, as binary files do", at
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return "it holds a lone surrogate, which is no character", error.start
    return None


def _format(text: str, path: str) -> str:
    for extension in reversed(os.path.basename(path).lower().split(".")[1:]):  # noqa: PTH119 -- the same
        if extension in _FORMATS:
            return _FORMATS[extension]
    first_line = text[: text.find("\n") + 1] or text
    return "python" if first_line.startswith("#!") and "python" in first_line else "shell"


def _scan(text: str, kind: str) -> list[Occurrence]:
    # Each format is loaded only where it is needed: yaml and ast alone take longer to load than a check does.
    if kind == "yaml":
        from ppdsl.launch_files.yaml_files import scan_yaml as scan  # noqa: PLC0415 -- see above
    elif kind == "json":
        from ppdsl.launch_files.json_files import scan_json as scan  # noqa: PLC0415 -- see above
    elif kind == "toml":
        from ppdsl.launch_files.toml_files import scan_toml as scan  # noqa: PLC0415 -- see above
    elif kind == "python":
        from ppdsl.launch_files.python_files import scan_python as scan  # noqa: PLC0415 -- see above
    else:
        from ppdsl.launch_files.shell import scan_shell as scan  # noqa: PLC0415 -- see above
    return scan(whole(text), Scope())


def _refuse(text: str, path: str, message: str, start: int | None = None) -> LaunchFile:
    span = None if start is None else Span(start, min(start + 1, len(text)))
    return LaunchFile(Source(text, path), (), (UNREADABLE.report(message, span),))


def _no_layout(path: str, found: Sequence[Occurrence]) -> Diagnostic:
    remarks = [one for one in found if one.flag.holds_layout and one.remark]
    labels = [Label(one.key.span, one.remark) for one in remarks[1:_MOST_REMARKS]]
    message = f"no layout in {path}"
    if not remarks:
        return NO_LAYOUT.report(message)
    return NO_LAYOUT.report(message, remarks[0].key.span, label=remarks[0].remark, labels=labels)
