"""Opens pages in headless Chromium, where there is one: the document as it is after its scripts, and what it looks like."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import zlib
from shutil import which
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
PATIENCE = 120  # seconds; it takes two or three where nothing else runs
SIZE = (1000, 700)

# no sandbox: it cannot be had inside most containers, and the pages are our own
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
)


def dump_document(page: str, folder: Path, fragment: str = "") -> str:
    """Open a page and give its document once it is loaded."""
    return _open(page, folder, fragment, "--dump-dom").decode()


def take_picture(page: str, folder: Path, *, dark: bool = False) -> Picture:
    """Open a page and give what it looks like."""
    shot = folder / "shot.png"
    _open(page, folder, "", f"--screenshot={shot}", *["--force-dark-mode"] * dark)
    return read_png(shot.read_bytes())


def _open(page: str, folder: Path, fragment: str, *flags: str) -> bytes:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    command = [str(CHROMIUM), *FLAGS, size, f"--user-data-dir={folder / 'profile'}", *flags, file.as_uri() + fragment]
    # a group of its own, so that nothing of it is left if it hangs; what it says about missing system services is of no interest
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            found, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        message = f"chromium ended with {process.returncode}"
        raise RuntimeError(message)
    return found


class Picture(NamedTuple):
    """Pixels, as rows of ``#rrggbb``."""

    rows: list[list[str]]

    def count(self, color: str) -> int:
        """Count the pixels of a colour."""
        return sum(row.count(color) for row in self.rows)


def read_png(data: bytes) -> Picture:
    """Read a PNG with eight bits a channel, as Chromium writes it; the alpha channel is left out."""
    header, packed, at = b"", b"", 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        chunk = data[at + 8 : at + 8 + length]
        header = chunk if kind == b"IHDR" else header
        packed += chunk if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, sort = struct.unpack_from(">IIBB", header)
    channels = {2: 3, 6: 4}[sort]
    if depth != 8:
        message = f"{depth} bits a channel"
        raise ValueError(message)
    raw, stride = zlib.decompress(packed), width * channels
    before, rows = bytearray(stride), []
    for row in range(height):
        start = row * (stride + 1)
        before = _unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), before, channels)
        text = before.hex()
        rows.append([f"#{text[2 * pixel : 2 * pixel + 6]}" for pixel in range(0, stride, channels)])
    return Picture(rows)


def _unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    """Undo a row's filter: each byte was written as the difference from its neighbours."""
    if kind == 2:  # the commonest by far
        return bytearray((one + other) & 255 for one, other in zip(line, above, strict=True))
    for at in range(len(line) if kind else 0):
        left, up, corner = (line[at - step], above[at], above[at - step]) if at >= step else (0, above[at], 0)
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up) // 2
        else:
            guess = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
        line[at] = (line[at] + guess) & 255
    return line
