"""Walk through a tutorial as a reader does: save its files, type its commands in a terminal, press Ctrl-C.

A page consists of fenced blocks. ``sh`` is executed; a comment ``# exit code N`` in it names an exit code other than 0.
``text`` is what the command before it prints: every line of it appears there, in this order, and ``...`` stands for
lines that are left out. A line ``^C`` in it is a Ctrl-C, pressed when the line above has appeared. Any other block is a
file, named in backquotes at the end of the line above it.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<above>[^\n]*)\n+```(?P<language>[a-z]+)\n(?P<text>.*?)^```$", re.M | re.S)
FILE_NAME = re.compile(r"`([^`]+)`:$")
PICTURE = re.compile(r"`(?P<written>\S+\.svg)`[^`]*!\[[^\]]*\]\((?P<shown>\S+\.svg)\)")
MARK = re.compile(r"<(?:path|polyline|line|circle|rect) [^>]*>")
EXIT_CODE = re.compile(r"# exit code (\d+)")
CTRL_C, INTERRUPTED = "^C", 130
ROWS, COLUMNS = 50, 80
LIMIT_S = 240.0
# What differs from one time or version to the next, and how columns are padded because of it.
VARYING = (
    (re.compile(r"\d+ h \d+ min|\d+ min \d+ s|\d+(\.\d+)? (s|min)\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?( UTC)?"), "DATE"),
    (re.compile(r"\d+ figures"), "FIGURES"),
    (re.compile(r"(?<=\s)[iw](?=\s|$)"), "NOT OVER"),  # a run of a suite at the moment of Ctrl-C
    (re.compile(r"\b[bc]-[0-9a-f]{16}"), "ID"),
    (re.compile(r"\b\d+\.\d+\.\d+(\.dev\d+|[a-z]\d+)*"), "VERSION"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines that the page shows as its output."""

    script: str
    shown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        if CTRL_C in self.shown:
            return INTERRUPTED
        named = EXIT_CODE.search(self.script)
        return int(named[1]) if named else 0

    @property
    def ctrl_c_after(self) -> str | None:
        """The line that must have appeared before Ctrl-C is pressed."""
        return self.shown[self.shown.index(CTRL_C) - 1] if CTRL_C in self.shown else None


def read_page(page: Path) -> tuple[dict[str, str], list[Step]]:
    """Return the files of a page, by name, and its steps."""
    files: dict[str, str] = {}
    steps: list[Step] = []
    for block in FENCE.finditer(page.read_text()):
        language, text = block["language"], block["text"]
        if language == "sh":
            steps.append(Step(text))
        elif language == "text":
            steps[-1] = Step(steps[-1].script, tuple(text.splitlines()))
        else:
            name = FILE_NAME.search(block["above"])
            assert name, f"{page.name}: a block of {language} without the name of its file: {block['above']}"
            files[name[1]] = text
    return files, steps


def run_step(step: Step, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Type the commands of a step in a terminal; return their exit code and what the terminal showed."""
    keyboard, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    session = [sys.executable, "-c", "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
               "os.execvp('bash', ['bash', '-eo', 'pipefail', '-c', sys.argv[1]])", step.script]  # fmt: skip
    process = subprocess.Popen(
        session, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    try:
        output = _read(keyboard, step.ctrl_c_after)
        code = process.wait(LIMIT_S)
        return code if code >= 0 else 128 - code, output  # as a shell counts a process that a signal ended
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(keyboard)


def _read(keyboard: int, ctrl_c_after: str | None) -> str:
    """Return what the terminal shows until its last process has left it; press Ctrl-C after a line."""
    output, deadline = b"", time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if not select.select([keyboard], [], [], 1.0)[0]:
            continue
        try:
            output += os.read(keyboard, 1 << 16)
        except OSError:  # EIO: no process has the terminal
            break
        lines = output.rpartition(b"\n")[0].decode(errors="replace").splitlines()
        if ctrl_c_after is not None and not missing_lines([ctrl_c_after], lines):
            os.write(keyboard, b"\x03")
            ctrl_c_after = None
    return output.decode(errors="replace")


def missing_lines(shown: list[str] | tuple[str, ...], printed: list[str]) -> list[str]:
    """Return the lines that a page shows and that were not printed, or not in this order."""
    rest, missing = [comparable(line) for line in printed], []
    for line in shown:
        if line.strip() in ("", "...", CTRL_C):
            continue
        if (expected := comparable(line)) in rest:
            rest = rest[rest.index(expected) + 1 :]
        else:
            missing.append(line)
    return missing


def comparable(line: str) -> str:
    """Return a line without what differs from one time to the next."""
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return line.replace(CTRL_C, "").strip()


def differing_pictures(page: Path, folder: Path) -> list[str]:
    """Return the figures that a page shows and that are not those that its commands wrote: the marks in them differ.
    Their texts name date and machine."""
    pictures = [(folder / link["written"], page.parent / link["shown"]) for link in PICTURE.finditer(page.read_text())]
    return [shown.name for written, shown in pictures if _marks(written) != _marks(shown)]


def _marks(picture: Path) -> list[str]:
    marks = MARK.findall(picture.read_text())
    assert len(marks) > 5, picture
    return marks
