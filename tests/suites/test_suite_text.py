"""The text of a suite: tables, progress lines, and reasons with all control characters escaped."""

from __future__ import annotations

import signal

import pytest
from rich.console import Console

from evopolicygym.cli.text.suite import progress, status_table
from evopolicygym.cli.text.suite_matrix import matrix_lines
from evopolicygym.suites import folder
from evopolicygym.suites.estimate import estimate
from evopolicygym.suites.file import Suite, plan
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, suite_totals


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
    shown = lines([row(reason=reason)])
    assert len(shown) == 3 and all(len(line) <= 80 and line.isprintable() for line in shown)
    assert "x" in shown[-1] or "two" in shown[-1] or "長" in shown[-1]


def test_names_of_others_are_one_line_of_text_as_well():
    shown = lines([row(task="t\x9b2J\nt__b scored", agent="a\u202e\na scored")], width=120)
    assert len(shown) == 3 and all(line.isprintable() for line in shown)
    assert r"t\x9b2J\nt__b" in shown[-1] and r"a\u202e\na" in shown[-1]


def test_the_live_table_fits_the_terminal():
    rows = [
        row(run=f"r{i}", seed=i, status=SuiteRunStatus.RUNNING if i == 99 else SuiteRunStatus.WAITING)
        for i in range(100)
    ]
    shown = lines(rows, height=24)
    assert len(shown) <= 24 and "99" in shown[2] and "more" in shown[-1]


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
    shown = folder.last_attempt(path)
    assert (shown.gave_up, shown.reason) == (gave_up, reason)


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


def grid(repeats=1, agents=5, tasks=16):
    statuses = [SuiteRunStatus.SCORED, SuiteRunStatus.RUNNING, SuiteRunStatus.WAITING, SuiteRunStatus.FAILED]
    return [
        row(
            run=f"t{task}__a{agent}__s{seed}",
            task=f"core16/some-task-with-a-name-{task}",
            agent=f"an-agent-with-a-long-name-{agent}",
            seed=seed,
            status=statuses[(task + agent + seed) % 4],
            score=-123.456 if (task + agent + seed) % 4 == 0 else None,
            charged=100,
            budget=128,
            dollars=1.5,
            tokens=2e6,
            periods=((1000.0, 1100.0),),
        )
        for task in range(tasks)
        for agent in range(agents)
        for seed in range(repeats)
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("repeats", [1, 3, 12])
def test_the_matrix_fits_and_has_every_cell_and_the_totals(width, repeats):
    shown = matrix_lines("some", grid(repeats), width)
    assert all(len(line) <= width for line in shown)
    text = "\n".join(shown)
    assert f"{20 * repeats}/{80 * repeats} runs scored" in text and f"${120 * repeats:.2f}" in text
    assert f"{8000 * repeats}/{10240 * repeats} episodes" in text and "f failed" in text
    assert all(f"= an-agent-with-a-long-name-{agent}" in text for agent in range(5)), "shortened names are explained"
    if width >= 80:
        cells = [line for line in shown if line.startswith("some-task")]
        assert len(cells) == 16 and all(len(line.split("  ")) > 5 for line in cells)
    if repeats == 1:
        assert text.count("r 100/128") == 20 and text.count("-123.46") == 20


SCORED = {"status": SuiteRunStatus.SCORED, "budget": 10, "charged": 10}


def test_the_matrix_shows_names_whole_where_there_is_room():
    shown = "\n".join(matrix_lines("some", grid(agents=3), 200))
    assert "an-agent-with-a-long-name-2" in shown and "=" not in shown and ".." not in shown


def test_totals_count_the_time_of_playing_and_estimate_the_rest():
    rows = [
        row(**SCORED, wasted_dollars=1.0, periods=((100.0, 300.0),)),
        row(status=SuiteRunStatus.WAITING, budget=10),
        row(status=SuiteRunStatus.UNREADY, budget=10),
    ]
    totals = suite_totals(rows)
    assert (totals.elapsed_s, totals.remaining_s, totals.dollars, totals.tokens) == (200.0, 200.0, 1.0, None)
    assert suite_totals([row(status=SuiteRunStatus.WAITING)]).remaining_s is None, "nothing to go by"


def test_totals_do_not_count_the_time_in_which_a_suite_lay_still():
    """Runs overlap, and what is at work counts until now."""
    rows = [
        row(**SCORED, periods=((100.0, 200.0),)),
        row(**SCORED, periods=((150.0, 250.0), (9000.0, 9100.0))),
        row(status=SuiteRunStatus.RUNNING, budget=10, periods=((110.0, 120.0), (9100.0, None))),
        row(status=SuiteRunStatus.WAITING, budget=10),
    ]
    totals = suite_totals(rows, now=9150.0)
    assert (totals.elapsed_s, totals.remaining_s) == (300.0, 300.0)


def test_a_limit_is_never_an_estimate_of_a_cost(tmp_path):
    file = tmp_path / "some.toml"
    file.write_text("tasks = ['core16/acrobot']\n[limits]\ndollars = 20\n[agents.claude]\n[agents.tuner]\n")
    planned = plan(Suite.read(file))
    claude, tuner = estimate(planned, [row(status=SuiteRunStatus.WAITING)] * 2).agents
    assert claude.dollars is None and "limited to $20 a run" in claude.dollars_basis
    assert (tuner.dollars, tuner.dollars_basis) == (0.0, "it uses no model")
    spent = estimate(planned, [row(status=SuiteRunStatus.WAITING), row(status=SuiteRunStatus.WAITING)], tmp_path)
    assert spent.total.dollars is None and "without claude" in spent.total.dollars_basis
