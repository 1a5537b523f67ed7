"""Control characters of agents and of records of other people never reach a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import unicodedata
from copy import deepcopy
from pathlib import Path

import pytest
from pydantic import ValidationError

from evopolicygym.printable import escape_unprintable, one_line
from evopolicygym.report.text import clean
from evopolicygym.run_record import RunRecord
from evopolicygym.tasks.ids import comparable_id
from server_helpers import COMMAND

SAMPLE = Path(__file__).parents[2] / "examples" / "runs"
FAKED = "ok   faked: a row"
# A record that contradicts itself would not be shown.
KEPT = ("hash", "checkpoint", "ledger_head", "verdict", "policy", "agent")
# To the clipboard, clear the screen, red; the same by one byte of Latin-1; text turned around; nothing to see.
HOSTILE = f"\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[31mRED\x9b2J\u202etxt.exe\u2066\u200b\x7f\r\n{FAKED}\n"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
# Styles, a line erased, a line up, the cursor hidden: what rich itself sends to a terminal.
OF_RICH = re.compile(r"\x1b\[(?:[0-9;]*m|2K|1?A|\?25[lh])")
SMALL = ("--validation-cases", "1", "--heldout-cases", "1", "--jobs", "1", "--seeds", "paper", "--budget", "2")
AGENT = f"""#!/bin/sh
printf '%b' '{"".join(f"{chr(92)}0{byte:03o}" for byte in HOSTILE.encode())}' >&2
exit 3
"""


def in_a_pipe(*arguments: object) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=240)
    assert done.returncode in (0, 1, 2, 5), done.stderr
    assert b"Traceback" not in done.stderr, done.stderr
    return (done.stdout + done.stderr).decode()


def on_a_terminal(*arguments: object) -> str:
    """What it sends there, without the sequences that are rich's."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    sent = b""
    try:
        while part := os.read(ours, 1 << 16):
            sent += part
    except OSError:  # nobody holds the other end any more
        pass
    os.close(ours)
    assert process.wait(240) in (0, 1, 2), sent
    return OF_RICH.sub("", sent.decode().replace("\r\n", "\n").replace("\r", ""))


WAYS = pytest.mark.parametrize("way", [in_a_pipe, on_a_terminal])


def is_tame(text: str, lines: bool = False) -> bool:
    """``lines``: as in an error, which may have several."""
    sequences = OBEYED.findall(text)
    assert not sequences, (sequences, text)
    assert lines or not [line for line in text.splitlines() if line.startswith(FAKED)], text
    return True


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The words with which a real agent failed, as `run` shows them in a pipe; and its run."""
    folder = tmp_path_factory.mktemp("failed")
    agent = folder / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    run = folder / "run"
    options = ("--agent", "command", "--max-retries", "0", *SMALL)
    return in_a_pipe("run", "toys:Toy-v0", "--run", run, *options, "--", agent), run


def test_the_last_error_of_an_agent_is_escaped(failed):
    text, _ = failed
    assert r"\x1b]52;c;cm0gLXJm\x07\x1b[2J" in text  # so they were said, and are shown; colours are left out
    assert is_tame(text)


@pytest.mark.parametrize(("command", "way"), [("finish", on_a_terminal), ("score", in_a_pipe)])
def test_it_is_escaped_when_a_run_is_shown_again(failed, way, command):
    assert is_tame(way(command, failed[1]))


def forged(record: dict) -> dict:
    """Every text that a record may hold, but a few, says something else now."""
    record = deepcopy(record)

    def visit(value: object) -> None:
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):  # type: ignore[attr-defined,arg-type]
            if isinstance(inner, str) and key not in KEPT:
                value[key] = HOSTILE + inner  # type: ignore[index]
                try:
                    RunRecord.model_validate(record)
                except ValidationError:
                    value[key] = inner  # type: ignore[index]
            elif isinstance(inner, (dict, list)):
                visit(inner)

    turn = {"exit_code": 1, "wall_s": 1.0, "submissions": 0, "failure": "x", "stop": True, "message": "x"}
    record["turns"] = [turn | {"model": "x", "usage": None, "price": None}]
    record["times"]["closed_because"] = "agent_failed"
    visit(record)
    record["ids"]["comparable_id"] = comparable_id(record["ids"]["fingerprint"])  # else it would not be shown at all
    return record


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged") / "runs"
    for name in ("acrobot__climber__s0", "acrobot__starter__s0"):
        shutil.copytree(SAMPLE / name, folder / name)
        file = folder / name / "run.json"
        file.write_text(json.dumps(forged(json.loads(file.read_text()))))
    shutil.copytree(SAMPLE / "acrobot__tuner__s0", folder / f"{HOSTILE.replace('/', '|')}")
    return folder


def count_forged(folder: Path) -> int:
    return (folder / "acrobot__climber__s0" / "run.json").read_text().count("u001b]52")


def test_much_of_a_record_can_be_forged(runs):
    assert count_forged(runs) > 20


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        (("score", "acrobot__climber__s0"), False),
        (("finish", "acrobot__climber__s0"), True),
        (("verify", "acrobot__climber__s0", "--jobs", "1"), False),
        (("leaderboard", "."), True),
        (("analyze", "."), True),
        (("compare", "."), False),
        (("leaderboard", ".", "--json"), True),
        (("report", ".", "-o", "report.html"), False),
        (("score", f"{HOSTILE}/no"), True),
        (("score", "--no-such-option" + HOSTILE), True),
        (("evaluate", HOSTILE, HOSTILE), True),
    ],
)
def test_a_forged_record_is_escaped(runs, monkeypatch, command, shows):
    monkeypatch.chdir(runs)
    text = in_a_pipe(*command)
    assert is_tame(text, lines=HOSTILE in command[1])
    assert ("52;c;cm0gLXJm" in text) >= shows
    if command[0] == "report":
        assert not OBEYED.findall((runs / "report.html").read_text())


def test_a_forged_record_is_escaped_on_a_terminal(runs):
    text = on_a_terminal("leaderboard", runs)
    assert is_tame(text) and "52;c;cm0gLXJm" in text


PRINTED = """
import logging, sys, warnings
from rich.text import Text
from evopolicygym.cli.main import _prepare_streams
from evopolicygym.cli.output import print_json, stderr, stdout
text = sys.argv[1].encode().decode("unicode_escape")
_prepare_streams()
for console in (stdout, stderr):
    console.print(text, Text(text), style="bold")
    console.block("two\\nlines " + text.replace("\\n", " "))
    with console.status(Text(text.replace("\\n", " "))):
        console.print("x")
print_json({text: text})
logging.getLogger("evopolicygym").warning("%s", text.replace("\\n", " "))
warnings.warn(text.replace("\\n", " "))
print(text.replace("\\n", " "), file=sys.stderr)
raise ValueError(text.replace("\\n", " "))
"""


@WAYS
def test_every_way_of_printing_escapes(way, monkeypatch):
    """By a console, as JSON, logged, warned of, or raised."""
    monkeypatch.setattr(sys.modules[__name__], "COMMAND", [sys.executable, "-c"])
    escaped = HOSTILE.replace(FAKED, "").encode("unicode_escape").decode()
    text = on_a_terminal(PRINTED, escaped) if way is on_a_terminal else _with_traceback(escaped)
    assert is_tame(text)
    assert text.count("52;c;cm0gLXJm") >= 9
    assert "two\nlines" in text


def _with_traceback(escaped: str) -> str:
    done = subprocess.run([sys.executable, "-c", PRINTED, escaped], capture_output=True, text=True)
    assert "ValueError" in done.stderr
    return done.stdout + done.stderr


def test_terminal_and_page_escape_the_same_characters():
    """What a terminal obeys or cannot show is marked on both, and all else is left alone."""
    for number in (*range(0x20000), *range(0xE0000, 0xE1000), 0xF0000, sys.maxunicode):
        char = chr(number)
        kind = unicodedata.category(char)
        marked = escape_unprintable(char) != char
        assert marked == (clean(char) != char), hex(number)
        if kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            assert marked == (char not in "\n\t"), hex(number)
        elif kind[0] in "LNPSZ" and char not in "\u115f\u1160\u2800\u3164\uffa0":
            assert not marked, hex(number)
    assert one_line("a\nb\tc") == "a\\nb\tc"
