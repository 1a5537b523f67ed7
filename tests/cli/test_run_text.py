"""The progress lines of a run when the output is not a terminal."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

from evopolicygym.cli import run_text
from evopolicygym.cli.output import hidden_progress
from evopolicygym.judge.events import Opened, Turned
from evopolicygym.judge.state import RunPhase, RunState

TURN = Turned(None, 0, 1.0, 0, None, None, "", False)


def test_each_phase_is_printed_once(monkeypatch, capsys):
    """The last turn is recorded after the run is closed."""
    monkeypatch.setattr(run_text, "REFRESH_S", 0.0)
    opened = RunState(opened=Opened("x", 10, 1, 1, {}), opened_at=datetime.now(UTC))
    between = replace(opened, turns=(TURN,))
    closed = replace(between, phase=RunPhase.CLOSED)
    later = replace(closed, turns=(TURN, TURN))
    states, done = [opened, opened, between, closed, later, later], threading.Event()

    def look() -> RunState:
        if len(states) == 1:
            done.set()
        return states.pop(0)

    run_text._print_progress(look, done)
    told = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["turn 1", "turn 2", "validating: 0 of 0 checkpoints"]


def test_hidden_scoring_prints_a_line_for_each_tenth(capsys):
    with hidden_progress("validation, then held-out") as progress:
        for done in range(41):
            progress(done, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "hidden episodes (validation, then held-out): 1 of 40 played"
    assert lines[-1] == "hidden episodes: 40 of 40 played" and len(lines) == 11
