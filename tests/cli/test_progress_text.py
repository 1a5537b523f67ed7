"""Progress of runs and of hidden scoring: whole at any width, and plain lines where nothing can be redrawn."""

from __future__ import annotations

import pytest

from evopolicygym.cli import output, progress
from evopolicygym.cli.progress import LinePrinter, ProgressStatus, hidden_progress, plain_line, progress_lines
from evopolicygym.run_progress import RunProgress

BUSY = RunProgress(
    phase="open",
    charged=24,
    budget=128,
    submissions=13,
    turns=2,
    validated=0,
    best_train_mean=-158.25,
    doing="waiting for turn 3",
    tokens=3_412_000,
    dollars=17.5,
    last_error="rate_limit: 429 " + "Too many requests. " * 40,
    elapsed_s=3725,
    remaining_s=61,
    next_attempt_s=27,
)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_everything_but_a_long_error_is_there_at_any_width(width):
    lines = progress_lines(progress.run_progress_status(BUSY), width)
    assert lines[0].startswith("waiting for turn 3") and all(len(line) <= width for line in lines)
    text = " ".join(lines)
    for part in ("24/128 episodes", "13 submissions", "best -158.25", "1 h 02 min", "1 min 01 s left", "3.4M tokens"):
        assert part in text, part
    assert "$17.50" in text and "next attempt in 27 s; last error: rate_limit: 429" in text and text.endswith("...")


def test_a_line_is_plain_text_whatever_an_error_says():
    hostile = ProgressStatus("turn", error="\x1b[2J\nfake line\r\u202e")
    assert plain_line(hostile).isprintable() and all(line.isprintable() for line in progress_lines(hostile, 60))


def test_a_plain_line_is_printed_for_each_change_and_once_a_minute(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    printer = LinePrinter()
    for now, step in ((0, "a"), (1, "a"), (2, "b"), (61, "b"), (62, "b"), (63, "b")):
        clock[0] = now
        printer.show(ProgressStatus(step, elapsed_s=now, step=step))
    assert capsys.readouterr().err.splitlines() == ["a | 0 s", "b | 2 s", "b | 1 min 02 s"]


def test_playing_and_thinking_alternate_without_new_lines():
    steps = {
        progress.run_progress_status(RunProgress("open", 24, 128, 3, 0, 0, None, words)).step
        for words in ("agent in turn 1", "playing submit_004 1/8", "playing submit_004 7/8")
    }
    assert len(steps) == 1
    paused = progress.run_progress_status(RunProgress("open", 24, 128, 3, 0, 0, None, "paused: no disk space"))
    assert paused.step not in steps


def test_hidden_scoring_ends_with_a_line_that_says_all_is_played(capsys):
    with hidden_progress("validation, then held-out") as set_counts:
        set_counts(40, 40)
    assert capsys.readouterr().err.startswith("scoring (validation, then held-out) | 40/40 hidden episodes | 0 s")
    with hidden_progress("held-out"):
        pass
    assert capsys.readouterr().err == "", "nothing was to be played"


@pytest.mark.parametrize(("variables", "live"), [({}, True), ({"CI": "true"}, False), ({"TERM": "dumb"}, False)])
def test_nothing_is_redrawn_on_a_dumb_terminal_and_in_ci(monkeypatch, variables, live):
    for name, value in ({"TERM": "xterm", "CI": "", "FORCE_COLOR": "1"} | variables).items():
        monkeypatch.setenv(name, value)
    assert output.is_live() is live
