"""The status of a suite whose folder comes from another person: links, pipes and locks in it lead nowhere."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from evopolicygym.api.suite import suite_status
from evopolicygym.errors import UserError
from evopolicygym.runs.locks import LOCK_FILE
from evopolicygym.suites.file import Suite, plan

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
    assert not (tmp_path / "elsewhere" / LINKED / LOCK_FILE).exists()
    assert not (tmp_path / "elsewhere" / WHOLE / LOCK_FILE).exists()


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
    with open(run / LOCK_FILE, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert statuses(suite)[LINKED][0] in ("running", "scored")
    log.rmdir() if kind == "folder" else log.unlink()
    log.write_text("waiting: process 1 plays\n")
    with open(run / LOCK_FILE, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (run / "ledger.jsonl").unlink()
        assert statuses(suite)[LINKED] == ("running", "waiting: process 1 plays"), "control: a log is read"
