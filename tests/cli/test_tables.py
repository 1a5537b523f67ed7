"""Tables on real terminals of several widths, and in pipes, where nothing is left out."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from server_helpers import command

RUNS = str(Path("examples") / "runs")
ROOT = Path(__file__).parents[2]
COMMANDS = [
    ("agent", "list"),
    ("task", "list"),
    ("leaderboard", "--paper", RUNS),
    ("analyze", RUNS),
    ("compare", RUNS),
    ("reproduce",),
]
SHOW = "import sys; from evopolicygym.cli.output import print_table, print_text; exec(sys.argv[1])"


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the lines that a process writes to a terminal of that width, on stdout and stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([sys.executable, *arguments], stdout=theirs, stderr=theirs, cwd=ROOT) as process:
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode().replace("\r\n", "\n").split("\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so at the end of a terminal
        return b""


def cli_on_terminal(columns: int, *arguments: str) -> list[str]:
    return on_terminal(columns, "-m", "evopolicygym", *arguments)


def shown(columns: int, source: str) -> list[str]:
    return on_terminal(columns, "-c", SHOW, source)[:-1]


def left_out(lines: list[str]) -> set[str]:
    text = " ".join(line.strip() for line in lines)
    named = [part.split(" (a wider terminal or --json has all)")[0] for part in text.split("left out: ")[1:]]
    return {name for names in named for name in names.split("; ")}


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_no_line_is_longer_than_the_terminal(arguments):
    lines = cli_on_terminal(80, *arguments)
    assert max(map(len, lines)) <= 80
    assert left_out(lines)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_pipe_gets_what_the_widest_terminal_shows(arguments):
    """Whatever environment variables say about terminals."""
    environment = os.environ | {"COLUMNS": "40", "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}
    piped = command(*arguments, cwd=ROOT, env=environment).stdout.splitlines()
    assert cli_on_terminal(400, *arguments)[: len(piped)] == piped
    assert max(map(len, piped)) > 100
    assert not left_out(piped)


def test_the_leaderboard_at_80_columns_has_what_a_reader_needs_first():
    whole = cli_on_terminal(80, "leaderboard", RUNS)
    lines = whole[next(i for i, line in enumerate(whole) if line.startswith("core16/acrobot ")) :]
    heading = next(line for line in lines if line.startswith("  rank"))
    assert heading.split() == ["rank", "entrant", "score", "95%", "interval", "gain", "ranks", "notes"]
    assert {"normalised", "paper's", "rank score", "checkpoints", "first", "P(first)"} <= left_out(lines)
    climber = next(line for line in lines if line.startswith("     2  command climber.py "))
    note = next(line for line in lines if line.startswith(f"  {climber.split()[-1]}: "))
    assert "95 % intervals from 2 runs contained the true value in " in note
    assert not any(line.startswith("cost: ") for line in lines)


def test_details_of_the_leaderboard_come_on_demand():
    """The exchange rates still have their numbers at 80 columns."""
    lines = cli_on_terminal(80, "leaderboard", RUNS, "--details")
    headings = ("variance components: ", "what the feedback was worth: ", "exchange rates: ", "selection: ", "cost: ")
    assert all(any(line.startswith(heading) for line in lines) for heading in headings)
    assert any(line.split()[:3] == ["task", "entrant", "by"] and line.split()[-1] == "steps" for line in lines)


def test_sentences_become_footnotes_that_are_printed_once():
    rows = "[('a', 'x; y'), ('b', 'y'), ('c', ''), ('d', 'z; x')]"
    lines = shown(20, f"print_table(('name', 'notes'), {rows}, indent='', remarks='notes')")
    assert lines == ["name  notes", "a     1 2", "b     2", "c", "d     1 3", "1: x", "2: y", "3: z"]


def test_what_is_left_out_of_lists_is_named():
    assert left_out(cli_on_terminal(80, "agent", "list")) == {"install"}
    assert left_out(cli_on_terminal(80, "task", "list")) == {"family", "version", "env_id", "observation"}
    assert not left_out(cli_on_terminal(200, "agent", "list"))


def test_headings_wrap_first_then_texts_then_columns_are_left_out():
    table = "print_table(('first', 'a long heading', 'text'), [('1', '2', 'four words of text and more')], indent='')"
    assert shown(50, table) == ["first  a long heading  text", "    1               2  four words of text and more"]
    assert shown(49, table)[:2] == ["        a long", "first  heading  text"]
    assert shown(40, table)[2:] == ["    1        2  four words of text and", "                more"]
    assert shown(30, table)[-2:] == ["left out: text (a wider", "  terminal or --json has all)"]


def test_columns_of_numbers_are_aligned_to_the_right():
    numbers = ("-1.5", "+2.5", "1,000", "<0.001", "$2.50", "97 %", "1e-05", "-", "", "12345678")
    texts = ("1 to 2", "1-4", "codex", "2 of 3", "12345678")
    table = "print_table(('heading',), [(cell,) for cell in {}], indent='')"
    assert shown(80, table.format(numbers)) == [f"{cell:>8}".rstrip() for cell in ("heading", *numbers)]
    assert shown(80, table.format(texts)) == ["heading", *texts]


def test_columns_are_left_out_in_order_and_then_from_the_right():
    table = "print_table(tuple('abcd'), [('aaaaaaaa', '11111111', '22222222', '33333333')], indent='', optional=('b',))"
    assert shown(28, table)[0].split() == ["a", "c", "d"]
    assert shown(18, table)[0].split() == ["a", "c"]
    assert shown(8, table)[:2] == ["a", "aaaaaaaa"]
    assert shown(5, table)[:3] == ["a", "aaaaa", "aaa"]


def test_columns_without_a_value_are_left_out_first():
    table = "print_table(tuple('abcd'), [('aaaaaaaa', '11111111', '-', '33333333')], indent='', optional=('b',))"
    assert shown(28, table)[0].split() == ["a", "b", "d"]
    assert shown(18, table)[0].split() == ["a", "d"]


def test_names_are_wrapped_and_never_cut():
    """Names that differ at their ends alone are broken between words, never cut."""
    names = [f"command climber.py --with-an-option sha256=44ad650fdf3{end}" for end in "ef"]
    lines = shown(40, f"print_table(('entrant', 'score'), [(name, '1') for name in {names!r}])")
    assert sum("sha256=44ad650fdf3e" in line for line in lines) == 1
    assert sum("sha256=44ad650fdf3f" in line for line in lines) == 1
    assert "left out" not in "".join(lines)


def test_a_path_in_a_sentence_is_never_broken():
    path = "/a-folder" * 6
    assert shown(40, f"print_text('  missing: it is in {path}')") == ["  missing: it is in", f"    {path}"]


def test_a_command_in_a_sentence_is_never_broken():
    command = "`evopolicygym run --resume runs/first`"
    assert shown(40, f"print_text('stopped; continue it with {command} soon')") == [
        "stopped; continue it with",
        f"  {command}",
        "  soon",
    ]


def test_the_last_words_of_an_exit_replace_the_live_text(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("CI", "")
    source = "from evopolicygym.cli.progress import *; import os\n"
    source += "with show_progress(lambda: ProgressStatus('agent in turn 1')):\n    time.sleep(1)\n"
    source += "    end_live_text(); print_text('stopped'); os._exit(0)"
    text = "\n".join(shown(60, source))
    last = text.rpartition("agent in turn 1")[2]
    assert "agent in turn 1" in text and "\x1b[2K" in last and "\x1b[?25h" in last and last.endswith("stopped")


def test_a_terminal_of_unknown_width_gets_everything():
    assert "left out" not in "".join(cli_on_terminal(0, "agent", "list"))


def test_control_characters_in_tables_are_escaped():
    assert shown(80, "print_table(('\\x1b[31mred',), [('\\x1b[31mred',)])") == ["  \\x1b[31mred"] * 2


@pytest.mark.parametrize(
    ("page", "arguments"), [("scoring", ("leaderboard", RUNS)), ("diagnostics", ("analyze", RUNS))]
)
def test_the_documentation_shows_what_is_printed(page, arguments):
    blocks = (ROOT / "docs" / f"{page}.md").read_text().split("```")[1::2]
    (block,) = (block for block in blocks if "acrobot" in block and "evopolicygym" not in block)
    wanted = [line for line in block.strip().split("\n") if line.strip() not in ("", "...")]
    printed = iter(cli_on_terminal(120, *arguments))
    assert len(wanted) > 6 and not [line for line in wanted if line not in printed]  # in this order
