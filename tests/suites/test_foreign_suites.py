"""The status of a suite whose folder comes from another person: links, pipes and locks in it lead nowhere."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evopolicygym.api.suite import suite_status
from evopolicygym.errors import UserError
from evopolicygym.run_paths import LOCK
from evopolicygym.suites import status
from evopolicygym.suites.file import Suite, plan
from evopolicygym.suites.folder import SuiteFolder, log_begin, log_failed_start
from evopolicygym.suites.status import _periods, last_left_out

SAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "acrobot__starter__s0"
LINKED, WHOLE = "core16-acrobot__starter__s0", "core16-acrobot__nop__s0"


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    for name in ("runs", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "suite.toml").write_text('name = "s"\ntasks = ["core16/acrobot"]\n[agents.starter]\n[agents.nop]\n')
    shutil.copytree(SAMPLE, folder / "runs" / WHOLE)
    return folder


def statuses(folder: Path) -> dict[str, tuple[str, str | None]]:
    rows = {row.run: row for row in suite_status(folder).rows}
    assert rows[WHOLE].status == "scored", "the other runs are shown"
    return {name: (row.status, row.reason) for name, row in rows.items()}


def test_the_status_makes_no_lock_in_folders_elsewhere(suite, tmp_path):
    (tmp_path / "elsewhere" / LINKED).mkdir(parents=True)
    shutil.move(suite / "runs" / WHOLE, tmp_path / "elsewhere" / WHOLE)
    (suite / "runs").rmdir()
    (suite / "runs").symlink_to(tmp_path / "elsewhere")
    assert statuses(suite)[LINKED][0] == "waiting"
    assert not (tmp_path / "elsewhere" / LINKED / LOCK).exists()
    assert not (tmp_path / "elsewhere" / WHOLE / LOCK).exists()


@pytest.mark.parametrize("task", ["planted:Env-v0", "{folder}/planted.toml"])
def test_the_status_loads_no_task_that_the_file_names(suite, monkeypatch, task):
    """The current folder may be the suite's own, where a stranger has put a module."""
    monkeypatch.chdir(suite)
    (suite / "planted.py").write_text("open('ran', 'w')\n")
    (suite / "planted.toml").write_text('env_id = "planted:Env-v0"\nsecret = "a-secret-canary"\n')
    text = f'name = "s"\ntasks = ["core16/acrobot", "{task.format(folder=suite)}"]\n[agents.nop]\n'
    (suite / "suite.toml").write_text(text)
    assert len(statuses(suite)) == 2
    assert not (suite / "ran").exists()
    with suppress(UserError):  # control: whoever runs the suite trusts it
        plan(Suite.read(suite / "suite.toml"))
    assert (suite / "ran").exists() == task.startswith("planted:")


def test_a_file_of_the_suite_that_is_a_link_is_not_read(suite, tmp_path):
    shutil.move(suite / "suite.toml", tmp_path / "secret.toml")
    (suite / "suite.toml").symlink_to(tmp_path / "secret.toml")
    with pytest.raises(UserError, match="holds no suite"):
        suite_status(suite)


def test_a_run_that_is_a_link_is_named_and_not_read(suite):
    (suite / "runs" / LINKED).symlink_to(SAMPLE)
    status, reason = statuses(suite)[LINKED]
    assert status == "failed" and reason is not None and "link" in reason


@pytest.mark.parametrize("name", [f"runs/{LINKED}/ledger.jsonl", f"runs/{LINKED}/run.json", f"logs/{LINKED}.log"])
def test_a_link_to_itself_in_one_run_does_not_end_the_status_of_all(suite, name):
    (suite / "runs" / LINKED).mkdir()
    (suite / name).symlink_to(Path(name).name)
    statuses(suite)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_log_that_is_no_file_is_not_read(suite, kind):
    """It once was read without bounds while a process held the run."""
    run, log = suite / "runs" / LINKED, suite / "logs" / f"{LINKED}.log"
    shutil.copytree(SAMPLE, run)
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: os.symlink("/dev/zero", path)}[kind](log)
    with open(run / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert statuses(suite)[LINKED][0] in ("running", "scored")
    log.rmdir() if kind == "folder" else log.unlink()
    log.write_text("waiting: process 1 plays\n")
    with open(run / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (run / "ledger.jsonl").unlink()
        assert statuses(suite)[LINKED] == ("running", "waiting: process 1 plays"), "control: a log is read"


@pytest.mark.parametrize("tasks", ['[["core16/acrobot"]]', "[{}]", '["core16/acrobot", 5]'])
def test_a_task_that_is_no_text_is_named(suite, tasks):
    (suite / "suite.toml").write_text(f"tasks = {tasks}\n[agents.nop]\n")
    with pytest.raises(UserError, match=r"tasks\.\d: Input should be a valid string"):
        suite_status(suite)


@pytest.mark.parametrize("key", ["tasks", "splits", "shown", "prices", "name"])
@pytest.mark.parametrize("name", ["loop.toml", r"\u0000.toml", "plain.toml"])
def test_no_path_in_a_file_of_a_suite_ends_its_status_with_a_traceback(suite, monkeypatch, key, name):
    """A link to itself made ``Path.resolve`` raise RuntimeError, a zero byte ValueError. The last name is a control."""
    monkeypatch.chdir(suite)
    (suite / "loop.toml").symlink_to("loop.toml")
    values = {"tasks": "core16/acrobot", "agent": "", "seal": ""} | {
        "tasks": {"tasks": name},
        "splits": {"seal": f'splits = {{seal_key = "{name}"}}'},
        "shown": {"agent": f'shown = ["{name}"]'},
        "prices": {"agent": f'prices = "{name}"'},
        "name": {"agent": f'name = "{name}"'},
    }[key]
    text = 'tasks = ["{tasks}"]\n{seal}\n[agents.nop]\n{agent}\n'.format(**values)
    (suite / "suite.toml").write_text(text)
    if "u0000" in name:
        with pytest.raises(UserError, match="is not a path"):
            suite_status(suite)
    else:
        assert len(suite_status(suite).rows) == 1


def test_a_file_of_a_few_lines_does_not_plan_millions_of_runs(suite):
    agents = "".join(f"[agents.a{number}]\n" for number in range(40))
    for repeats, is_allowed in ((10, True), (1000, False)):
        (suite / "suite.toml").write_text(f'tasks = ["core16/acrobot"]\nrepeats = {repeats}\n{agents}')
        if is_allowed:
            assert len(suite_status(suite).rows) == 400
        else:
            with pytest.raises(UserError, match="40,000 runs, and a suite has at most 20,000"):
                suite_status(suite)


def test_superseded_attempts_are_listed_once_for_all_runs(suite, monkeypatch):
    (suite / "superseded").mkdir()
    shutil.copytree(SAMPLE, suite / "superseded" / f"{LINKED}__1")
    (suite / "superseded" / f"{LINKED}__2").symlink_to(SAMPLE)
    looks = []
    monkeypatch.setattr(
        SuiteFolder, "superseded", lambda self, real=SuiteFolder.superseded: looks.append(1) or real(self)
    )
    rows = {row.run: row for row in suite_status(suite).rows}
    assert rows[LINKED].attempts == 1 and rows[WHOLE].attempts == 1 and len(looks) == 1


def test_an_attempt_is_moved_beside_what_is_there(suite):
    """It ended in an error, again and again, where an earlier one had been moved away, or a link had the next name."""
    (suite / "superseded").mkdir()
    (suite / "superseded" / f"{WHOLE}__1").symlink_to("nowhere")
    shutil.copytree(SAMPLE, suite / "superseded" / f"{WHOLE}__3")
    SuiteFolder(suite).supersede(WHOLE)
    assert (suite / "superseded" / f"{WHOLE}__2" / "run.json").exists()


def test_more_superseded_attempts_than_a_suite_leaves_are_not_read(suite):
    """Each of 100,000 sparse ledgers took half a second."""
    for number in range(9):
        attempt = suite / "superseded" / f"{LINKED}__{number}"
        attempt.mkdir(parents=True)
        with open(attempt / "ledger.jsonl", "wb") as ledger:
            ledger.truncate(128 << 20)
        assert number or suite_status(suite).rows, "control: what fits is read"
    with pytest.raises(UserError, match=r"the ledgers in .*superseded have 1152 MiB; at most 1024 MiB are read"):
        suite_status(suite)


def test_periods_of_a_long_log_take_no_square_of_time():
    moments = [datetime.fromtimestamp(10.0 * second, UTC) for second in range(20_000)]
    owned = [(began, ended) for began, ended in zip(moments[::2], moments[1::2], strict=True)]
    starts = [20.0 * number - 1.0 for number in range(10_000)]
    began = time.process_time()
    periods = _periods(owned, starts * 20, is_running=False)
    assert time.process_time() - began < 5.0
    assert periods == _periods(owned, starts, is_running=False)
    assert periods[1] == (19.0, 30.0) and len(periods) == 10_000


@pytest.mark.parametrize("write", [log_begin, lambda path: log_failed_start(path, "no reason")])
def test_nothing_is_written_through_a_link_in_place_of_a_log(tmp_path, write):
    write(tmp_path / "plain.log")
    assert (tmp_path / "plain.log").read_text().startswith("===") or "no reason" in (tmp_path / "plain.log").read_text()
    (tmp_path / "linked.log").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError):
        write(tmp_path / "linked.log")
    assert not (tmp_path / "outside").exists()


def test_no_lock_is_made_through_a_link(tmp_path):
    with SuiteFolder(tmp_path).locked():  # control
        assert (tmp_path / ".lock").exists()
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError), SuiteFolder(tmp_path).locked():
        pass
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["runs", "logs", "superseded"])
@pytest.mark.parametrize("target", ["outside", "missing"])
def test_no_folder_of_a_suite_is_used_through_a_link(tmp_path, name, target):
    (tmp_path / "outside").mkdir()
    SuiteFolder(tmp_path / "suite").make()
    assert (tmp_path / "suite" / name).is_dir(), "control"
    (tmp_path / "suite" / name).rmdir()
    (tmp_path / "suite" / name).symlink_to(tmp_path / target)
    with pytest.raises(UserError, match="is a link"):
        SuiteFolder(tmp_path / "suite").make()
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("grown", ["ledger", "log", "superseded"])
def test_runs_beyond_the_total_of_a_status_are_shown_as_not_read(suite, monkeypatch, grown):
    """Each of 20,000 planned runs could have 128 MiB of ledger and 64 MiB of log."""
    paths = {
        "ledger": suite / "runs" / LINKED / "ledger.jsonl",
        "log": suite / "logs" / f"{LINKED}.log",
        "superseded": suite / "superseded" / f"{LINKED}__1" / "ledger.jsonl",
    }
    path = paths[grown]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(3 << 20)
    monkeypatch.setattr(status, "MAX_STATUS_BYTES", 4 << 20)
    assert statuses(suite)[LINKED][0] == "waiting", "control"
    os.truncate(path, 5 << 20)
    shown, reason = statuses(suite)[LINKED]
    assert shown == "failed"
    assert "not read: its ledgers, record and log have 5.0 MiB, those of the runs before it 0.0 MiB" in reason
    assert "at most 4 MiB are read" in reason


def test_the_files_of_all_planned_runs_count_together(suite, monkeypatch):
    (suite / "suite.toml").write_text('tasks = ["core16/acrobot"]\nrepeats = 20\n[agents.starter]\n')
    (suite / "runs" / WHOLE).rename(suite / "runs" / LINKED)
    for number in range(1, 20):
        with open(suite / "logs" / f"core16-acrobot__starter__s{number}.log", "wb") as log:
            log.truncate(1 << 20)
    monkeypatch.setattr(status, "MAX_STATUS_BYTES", 8 << 20)
    rows = suite_status(suite).rows
    assert rows[0].status == "scored", "control"
    assert [number for number, row in enumerate(rows) if row.status == "failed"] == list(range(8, 20))
    assert "those of the runs before it 7." in (rows[8].reason or "")


def test_a_file_beyond_its_own_bound_takes_nothing_of_the_total(suite):
    """It is refused unread, so it must not hide the other runs."""
    (suite / "runs" / LINKED).mkdir()
    with open(suite / "runs" / LINKED / "ledger.jsonl", "wb") as ledger:
        ledger.truncate(1 << 40)
    assert statuses(suite)[LINKED][0] == "failed"


def test_a_table_of_very_many_lists_is_not_parsed(suite):
    """A suite.json of 63 MB took 1.7 GB of memory."""
    folder = SuiteFolder(suite)
    row = '{"run":"x","status":"unready","reason":"why"}'
    for padding, left_out in (("", {"x": "why"}), (",[]" * 2_000_000, {})):
        folder.table.write_text(f'{{"runs":[{row}],"x":[0{padding}]}}')
        assert last_left_out(folder) == left_out
