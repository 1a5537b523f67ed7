"""The text of a suite: tables, progress lines, and reasons with all control characters escaped."""

from __future__ import annotations

import signal

import pytest
from rich.console import Console

from evopolicygym.cli.suite_text import progress, status_table
from evopolicygym.suites import folder
from evopolicygym.suites.estimate import estimate
from evopolicygym.suites.file import SpendingCap, Suite, plan
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, is_over_cap


def row(**facts):
    return SuiteRow(
        **{"run": "t__a__s0", "task": "t", "agent": "a", "model": None, "seed": 0, "status": "failed"} | facts
    )


def lines(rows, width=80, height=None):
    console = Console(width=width, force_terminal=False)
    with console.capture() as shown:
        console.print(status_table("some", rows, width=width, height=height))
    return shown.get().splitlines()


@pytest.mark.parametrize("reason", ["[/red] [bold]x", "\x1b[2Jx\x07", "one\ntwo\r\nthree", "x" * 500, "長" * 100])
def test_a_reason_is_one_line_of_text(reason):
    found = lines([row(reason=reason)])
    assert len(found) == 3 and all(len(line) <= 80 and line.isprintable() for line in found)
    assert "x" in found[-1] or "two" in found[-1] or "長" in found[-1]


def test_names_of_others_are_one_line_of_text_as_well():
    found = lines([row(task="t\x9b2J\nt__b scored", agent="a\u202e\na scored")], width=120)
    assert len(found) == 3 and all(line.isprintable() for line in found)
    assert r"t\x9b2J\nt__b" in found[-1] and r"a\u202e\na" in found[-1]


def test_the_live_table_fits_the_terminal():
    rows = [
        row(run=f"r{i}", seed=i, status=SuiteRunStatus.RUNNING if i == 99 else SuiteRunStatus.WAITING)
        for i in range(100)
    ]
    found = lines(rows, height=24)
    assert len(found) <= 24 and "99" in found[2] and "more" in found[-1]


def test_a_piped_suite_prints_a_line_for_each_change_alone(capsys, tmp_path):
    waits = {"status": SuiteRunStatus.RUNNING, "phase": "validating", "charged": 4, "budget": 24, "hidden_left": 20}
    looks = [
        {"status": SuiteRunStatus.WAITING},
        {"status": SuiteRunStatus.RUNNING},
        {"status": SuiteRunStatus.RUNNING, "phase": "playing", "budget": 24},
        waits | {"reason": "waiting: process 1 plays. Ctrl-C loses nothing."},
        waits | {"reason": "waiting: process 2 plays. Ctrl-C loses nothing."},
        waits,
        waits | {"hidden_left": 3},
        waits | {"status": SuiteRunStatus.SCORED, "score": 1.0, "reason": "agent_stopped"},
    ]
    with progress("some", tmp_path) as show:
        for look in looks:
            show([row(**look)])
            show([row(**look)])
    assert capsys.readouterr().err.splitlines()[1:] == [
        "t__a__s0: starting, 0/0 episodes",
        "t__a__s0: playing, 0/24 episodes",
        "t__a__s0: validating, 20 left, 4/24 episodes: waiting: process 1 plays",
        "t__a__s0: scored, 4/24 episodes, score 1: agent_stopped",
    ]


@pytest.mark.parametrize(
    ("said", "code", "gave_up", "reason"),
    [
        ("", -signal.SIGKILL, False, "its process was killed by SIGKILL"),
        ("", -signal.SIGTERM, False, None),
        ("", folder.STOPPED, False, None),
        ("evopolicygym: these differ:\n  budget\nDo this.\n", 2, True, "these differ: budget Do this."),
        ("Traceback\nKeyError: 3\n", 1, True, "KeyError: 3"),
        ("", 7, True, "its process ended with exit code 7"),
    ],
)
def test_how_an_attempt_ended(tmp_path, said, code, gave_up, reason):
    path = tmp_path / "some.log"
    folder.log_begin(path)
    with open(path, "a") as file:
        file.write(said)
    folder.log_end(path, code)
    found = folder.last_attempt(path)
    assert (found.gave_up, found.reason) == (gave_up, reason)


def test_what_superseded_attempts_cost_counts():
    rows = [row(tokens=400), row(wasted_tokens=600.0, wasted_dollars=2.0)]
    assert is_over_cap(rows, SpendingCap(tokens=1000)) and not is_over_cap(rows, SpendingCap(tokens=1001))
    assert is_over_cap(rows, SpendingCap(dollars=2))


def test_unknown_core_time_is_not_zero(tmp_path):
    file = tmp_path / "some.toml"
    file.write_text("tasks = ['toys:Toy-v0']\n[agents.nop]\n[agents.starter]\n")
    planned = plan(Suite.read(file))
    half = estimate(planned, [row(status=SuiteRunStatus.SCORED), row(status=SuiteRunStatus.WAITING)])
    assert half.total.done == 1 and half.total.core_hours is None
    assert estimate(planned, [row(status=SuiteRunStatus.SCORED)] * 2).total.core_hours == 0


def test_core_time_of_generated_tasks_is_known_before_they_are_drawn(tmp_path):
    """It grows with the repeats, less than twice: a task is drawn once for all of them."""
    file = tmp_path / "some.toml"
    file.write_text("tasks = 'novel'\n[agents.tuner]\n")
    once, twice = (plan(Suite.read(file, [f"repeats={repeats}"])) for repeats in (1, 2))
    first, second = (
        estimate(planned, [row(status=SuiteRunStatus.WAITING)] * len(planned)) for planned in (once, twice)
    )
    assert not first.unmeasured
    assert 0 < first.total.core_hours < second.total.core_hours < 2 * first.total.core_hours


def test_a_log_must_be_a_plain_file(tmp_path):
    """The folder of a suite may come from other people: links in it are not followed."""
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "run.log"
    path.write_text("=== begun now\nit broke\n=== ended, exit code 2\n")
    assert folder.last_attempt(path) == folder.Attempt(2, "it broke", 1)
    path.write_text(f"=== begun now\nit broke\n=== ended, exit code {'9' * 5000}\n")
    assert folder.last_attempt(path) == folder.Attempt(None, None, 1)
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    assert folder.last_attempt(path) is None
