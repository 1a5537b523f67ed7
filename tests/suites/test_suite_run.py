"""`suite run`: additions are run, changes are refused, and failures do not stop other runs."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import threading

import pytest
from suite_helpers import TOY, SuiteRunner, comparable_facts

from evopolicygym.judge import failpoints
from evopolicygym.runs.locks import LOCK_TIMEOUT_S, RunLock
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.suites.folder import is_owned, log_begin
from forged_runs import move_back_in_time
from process_helpers import alive, descendants, wait_until
from server_helpers import command

STARTER = TOY + "[agents.starter]\n"
FOREVER = f"""
[agents.slow]
name = "command"
command = ["{sys.executable}", "-c", "import time; time.sleep(600)"]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = SuiteRunner(tmp_path_factory.mktemp("suite"), STARTER)
    assert work.run().returncode == 0
    return work


def test_the_table_is_rebuilt_from_the_runs(done):
    first = (done.folder / "suite.json").read_bytes()
    (done.folder / "suite.json").unlink()
    assert done.run().returncode == 0
    assert (done.folder / "suite.json").read_bytes() == first
    assert json.loads(first)["complete"] is True


def test_added_repeats_and_agents_are_run(done, tmp_path):
    before = {name: comparable_facts(done.record(name)) for name in done.names()}
    stamp = (done.folder / "runs" / done.names()[0] / "ledger.jsonl").stat().st_mtime_ns
    done.file.write_text(done.file.read_text() + "[agents.nop]\n")
    assert done.run("--set", "repeats=2").returncode == 0
    assert len(done.names()) == 4
    first = next(iter(before))
    assert (done.folder / "runs" / first / "ledger.jsonl").stat().st_mtime_ns == stamp
    rows = done.rows()
    assert {row["seed"] for row in rows.values()} == {0, 1}
    assert {row["status"] for row in rows.values()} == {"scored"}


def test_the_time_between_two_sittings_is_not_counted(done):
    """The first run was played an hour before the others. A process that has not taken it up yet does not play it."""
    first = done.folder / "runs" / done.names()[0]
    kept = (first / "ledger.jsonl").read_bytes()
    move_back_in_time(first, 3600)
    try:
        status = json.loads(command("suite", "status", done.folder, "--json").stdout)
        with RunLock(first):
            log_begin(done.folder / "logs" / f"{first.name}.log")
            owned = json.loads(command("suite", "status", done.folder, "--json").stdout)
    finally:
        (first / "ledger.jsonl").write_bytes(kept)
    assert 0 < status["totals"]["elapsed_s"] < 1800
    assert "running" in {row["status"] for row in owned["runs"]} and owned["totals"]["elapsed_s"] < 1800


def test_changing_what_has_begun_is_refused(done):
    refused = done.run("--set", "defaults.budget=9")
    assert refused.returncode == 2
    assert "budget is 8 there, 9 here" in refused.stderr and "--folder" in refused.stderr


def test_another_sealing_key_is_refused(tmp_path):
    key = tmp_path / "key"
    key.write_text("11" * 32)
    key.chmod(0o600)
    text = TOY.replace('seeds = "paper"', f'seeds = "sealed"\nseal_key = "{key}"')
    work = SuiteRunner(tmp_path, text + "[agents.nop]\n")
    assert work.run().returncode == 0
    key.write_text("22" * 32)
    refused = work.run("--set", "repeats=2")
    assert refused.returncode == 2 and "another sealing key" in refused.stderr and len(work.names()) == 1


def test_the_resolved_file_continues_its_suite(done):
    again = command("suite", "run", done.folder / "suite.toml")
    assert again.returncode == 0 and re.search(r"(has|have) a score", again.stderr)


def test_a_broken_run_does_not_stop_others(done, tmp_path):
    folder = tmp_path / "a [b] c"
    shutil.copytree(done.folder, folder)
    first, second = (folder / "runs" / f"toys-Toy-v0__starter__s{seed}" for seed in (0, 1))
    (first / "config.toml").write_text("not TOML")
    remove_tree(second)
    second.write_text("not a folder")
    ended = command("suite", "run", folder, "--set", "repeats=2")
    assert ended.returncode == 1 and "1 of " in ended.stderr and "is not a folder" in ended.stderr
    assert f"suite run '{folder}'" in ended.stderr


def test_a_run_killed_at_its_first_ledger_line_continues(tmp_path, monkeypatch):
    work = SuiteRunner(tmp_path, STARTER)
    with monkeypatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, "ledger-line-torn")
        assert work.run().returncode == 1
    (row,) = work.rows().values()
    assert (row["status"], row["reason"]) == ("waiting", "its process was killed by SIGKILL")
    assert work.run().returncode == 0
    (row,) = work.rows().values()
    assert row["status"] == "scored" and row["attempts"] == 1


def test_checking_the_owner_of_a_run_does_not_block_it(tmp_path):
    looking = RunLock(tmp_path)
    threading.Timer(0.1, looking.__exit__).start()
    with RunLock(tmp_path, LOCK_TIMEOUT_S):
        assert is_owned(tmp_path)
    assert not is_owned(tmp_path) and not is_owned(tmp_path / "none")


def test_the_plan_starts_nothing(tmp_path):
    work = SuiteRunner(tmp_path, STARTER)
    plan = work.run("--dry-run", "--json", "--set", 'tasks="core16"')
    assert plan.returncode == 0 and not work.folder.exists()
    total = json.loads(plan.stdout)["total"]
    assert total["runs"] == 16 and total["episodes"] == 16 * (8 * 3 + 9) and total["core_hours"] > 0
    both = work.run("--dry-run", "--set", 'tasks="core16"', "--set", 'variants=["plain", "disguised"]')
    assert "runs by variant: plain 16, disguised 16" in both.stdout, both.stderr


def test_a_failed_run_does_not_stop_others(tmp_path):
    work = SuiteRunner(tmp_path, STARTER + "[agents.nop]\n")
    (work.folder / "runs" / "toys-Toy-v0__nop__s0").mkdir(parents=True)
    (work.folder / "runs" / "toys-Toy-v0__nop__s0" / "notes.txt").write_text("not of a run")
    ended = work.run()
    assert ended.returncode == 1
    rows = work.rows()
    assert rows["toys-Toy-v0__starter__s0"]["status"] == "scored"
    failed = rows["toys-Toy-v0__nop__s0"]
    assert failed["status"] == "failed" and "holds files of something else (notes.txt)" in failed["reason"]
    assert "holds files of something else (notes.txt)" in ended.stdout


def test_a_program_that_does_not_exist_is_named_before_anything_starts(tmp_path):
    work = SuiteRunner(tmp_path, STARTER + '[agents.mine]\nname = "command"\ncommand = ["/no/such/program"]\n')
    refused = work.run()
    assert refused.returncode == 2 and "/no/such/program" in refused.stderr and not work.folder.exists()


def test_one_scheduler_for_one_suite(tmp_path):
    work = SuiteRunner(tmp_path, STARTER + FOREVER)
    process = work.start()
    assert wait_until(lambda: (work.folder / "runs").exists() and len(work.names()) == 2)
    second = work.run()
    assert second.returncode == 2 and "another process works on the suite" in second.stderr
    process.kill()
    process.wait()


def test_ctrl_c_once_ends_cleanly_and_names_the_next_command(tmp_path):
    work = SuiteRunner(tmp_path, STARTER + FOREVER)
    process = work.start()
    slow = "toys-Toy-v0__slow__s0"
    assert wait_until(lambda: work.folder.exists() and work.rows().get(slow, {}).get("phase") == "playing")
    everybody = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Ctrl-C again stops at once" in err and "continue with `evopolicygym suite run" in err
    assert not alive(everybody)
    assert work.rows()[slow]["status"] == "interrupted"


def test_ctrl_c_twice_stops_at_once_and_leaves_nothing_broken(tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    monkeypatch.setenv("TOY_GATE", str(gate))
    work = SuiteRunner(tmp_path, STARTER.replace("Toy-v0", "Gated-v0"))
    process, name = work.start(), "toys-Gated-v0__starter__s0"
    assert wait_until(lambda: work.folder.exists() and work.rows()[name]["submissions"] == 1)
    everybody = descendants(process.pid)
    process.send_signal(signal.SIGINT)  # it waits for its submission, which waits for the gate
    assert not wait_until(lambda: process.poll() is not None, 1.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and wait_until(lambda: not alive(everybody), 10)
    assert work.rows()[name]["status"] == "interrupted"
    gate.touch()
    assert work.run().returncode == 0
    assert work.record(name)["budget"]["charged"] == 4 and work.rows()[name]["score"] is not None


def test_a_run_without_a_score_is_repeated_and_its_folder_kept(tmp_path, monkeypatch):
    mood = tmp_path / "mood"
    mood.write_text("bad")
    monkeypatch.setenv("TOY_MOOD", str(mood))
    work, name = SuiteRunner(tmp_path, STARTER.replace("Toy-v0", "Moody-v0")), "toys-Moody-v0__starter__s0"
    first = work.run("--jobs", 1)
    assert first.returncode == 1
    row = work.rows()[name]
    assert row["status"] == "missing" and "judge failed" in row["reason"] and row["score"] is None
    assert "a mood" in row["reason"]
    evidence = (work.folder / "runs" / name / "ledger.jsonl").read_bytes()
    mood.unlink()
    assert work.run("--jobs", 1).returncode == 0
    row = work.rows()[name]
    assert row["status"] == "scored" and row["attempts"] == 2
    assert (work.folder / "superseded" / f"{name}__1" / "ledger.jsonl").read_bytes() == evidence
    table = json.loads(command("leaderboard", work.folder, "--json").stdout)
    assert "superseded" not in json.dumps(table)
