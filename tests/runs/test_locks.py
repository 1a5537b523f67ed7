"""On one machine agents and hidden scoring on the same cases exclude each other: real locks, and whole runs at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from test_foreign_folders import reconfigure, rewrite

from conftest import policy_source, write_policy
from evopolicygym.errors import UserError
from evopolicygym.runs.locks import MUTEX, VARIABLE, CaseSet, hidden_cases_lock
from process_helpers import wait_until
from server_helpers import COMMAND, command, with_task

TASK = "toys:Toy-v0"
TOY = CaseSet(TASK, "paper")
SMALL = ("--validation-cases", "2", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper", "--budget", "12")
HOLDER = """
import asyncio, sys
from evopolicygym.runs.locks import CaseSet, hidden_cases_lock, living_agent_lock

def say(text):
    print(text, flush=True)

async def live(cases):
    async with living_agent_lock(cases, sys.argv[2], "Wait.", say):
        say("holds")
        sys.stdin.read()

cases = CaseSet(sys.argv[3], "paper")
if sys.argv[1] == "agent":
    asyncio.run(live(cases))
else:
    with hidden_cases_lock(cases, sys.argv[2], "Wait.", say):
        say("holds")
        sys.stdin.read()
"""


@pytest.fixture
def locks(tmp_path, monkeypatch) -> Path:
    """A folder of this test's own, which its processes share."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "locks"))
    return tmp_path / "locks"


class Holder:
    """A process that has an agent, or plays hidden cases, until it is told to leave."""

    def __init__(self, use: str, label: str, task: str = TASK) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, use, label, task], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def holders() -> Iterator[type[Holder]]:
    """Return a function that starts holders; all are killed at the end."""
    made: list[Holder] = []

    class Known(Holder):
        def __init__(self, *arguments: str) -> None:
            super().__init__(*arguments)
            made.append(self)

    try:
        yield Known
    finally:
        for process in made:
            process.kill()


def test_agents_exclude_scorers_but_not_each_other(locks):
    with holders() as holder:
        first, second = holder("agent", "run-1"), holder("agent", "run-2")
        assert first.says() == second.says() == "holds"
        elsewhere = holder("hidden", "run-3", "toys:Other-v0")
        assert elsewhere.says() == "holds"
        scorers = [holder("hidden", "run-4"), holder("hidden", "run-5")]
        for scorer in scorers:
            printed = scorer.says()
            assert printed.startswith("waiting: hidden cases of toys:Toy-v0") and printed.endswith("Wait.")
            assert f"process {first.process.pid} (agent: run-1)" in printed and "(agent: run-2)" in printed
        first.leave()
        second.kill()  # nothing of it is in the way
        for scorer in scorers:
            assert scorer.says().startswith("the wait is over") and scorer.says() == "holds"
        for process in (*scorers, elsewhere):
            process.leave()
    assert os.listdir(locks) == [MUTEX], "files of the dead are left"


def test_a_waiting_scorer_goes_before_new_agents(locks):
    with holders() as holder:
        old = holder("agent", "old")
        assert old.says() == "holds"
        scorer = holder("hidden", "scorer")
        assert scorer.says().startswith("waiting: ")
        new = holder("agent", "new")
        assert "(waiting: scorer)" in new.says()
        old.leave()
        assert scorer.says().startswith("the wait is over") and scorer.says() == "holds"
        assert new.process.poll() is None
        scorer.kill()
        assert new.says().startswith("the wait is over") and new.says() == "holds"


def test_a_killed_waiter_excludes_nothing(locks):
    with holders() as holder:
        old = holder("agent", "old")
        assert old.says() == "holds"
        scorer = holder("hidden", "scorer")
        assert scorer.says().startswith("waiting: ")
        scorer.kill()
        assert holder("agent", "new").says() == "holds"


@pytest.mark.parametrize("trouble", ["open to others", "a link", "a file", "of another user"])
def test_an_unsafe_lock_folder_is_refused(trouble, locks, tmp_path):
    if trouble == "a file":
        locks.touch()
    elif trouble == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        locks.symlink_to(tmp_path / "elsewhere")
    elif trouble == "of another user" and os.geteuid() != 0:
        pytest.skip("needs root to make a folder of another user")
    else:
        locks.mkdir()
        locks.chmod(0o777 if trouble == "open to others" else 0o700)
        os.chown(locks, 65534 if trouble == "of another user" else -1, -1)
    with pytest.raises(UserError, match=VARIABLE), hidden_cases_lock(TOY, "x", "Wait."):
        pass


def run_arguments(root: Path, *program: str) -> list[str]:
    return [*COMMAND, "run", TASK, "--run", str(root), "--json", *SMALL, "--agent", "command", "--", *program]


STAYS = "python3 submit.py 0-3 && touch here; until test -e leave; do sleep 0.1; done"
LEAVES = "python3 submit.py 0-3"


class Running:
    """A real run, as a process."""

    def __init__(self, root: Path, script: str, **environment: str) -> None:
        self.root = root
        self.process = subprocess.Popen(
            run_arguments(root, "sh", "-c", script),
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=(root.parent / f"{root.name}.err").open("w"),
            text=True,
        )

    @property
    def said(self) -> str:
        return (self.root.parent / f"{self.root.name}.err").read_text()

    def outcome(self) -> str:
        out, _ = self.process.communicate(timeout=240)
        assert self.process.returncode == 0, self.said
        return str(json.loads(out)["outcome"]["kind"])


def lines(root: Path) -> list[tuple[str, float, dict[str, object]]]:
    """Kind, time and data of each line of a ledger."""
    try:
        events = [json.loads(line) for line in (root / "ledger.jsonl").read_text().splitlines()]
    except (FileNotFoundError, ValueError):
        return []  # not yet there, or just being written
    return [(event["kind"], datetime.fromisoformat(event["time"]).timestamp(), event["data"]) for event in events]


def kinds(root: Path) -> list[str]:
    return [kind for kind, _, _ in lines(root)]


@pytest.fixture
def neighbour(tmp_path, locks) -> Iterator[Running]:
    """A run whose agent is alive until there is a file ``leave`` in its workspace."""
    run = Running(tmp_path / "neighbour", f"ls {locks} > seen; {STAYS}")
    assert wait_until(lambda: (run.root / "workspace" / "here").exists() or run.process.poll() is not None)
    assert run.process.poll() is None, run.said
    yield run
    run.process.kill()
    run.process.communicate()


def leave(run: Running) -> float:
    """Let the agent end, and return the time at which it did."""
    (run.root / "workspace" / "leave").touch()
    assert run.outcome() == "scored"
    return max(time for kind, time, _ in lines(run.root) if kind == "turned")


def first_hidden(root: Path) -> float:
    """When the first hidden case began to be played: its line says how long it took."""
    return next(time - float(str(data["wall_s"])) for kind, time, data in lines(root) if kind == "validated")


def waiting(*arguments: object) -> subprocess.Popen[str]:
    """Start a command, and return when it has printed that it waits; on a slow machine progress lines come before."""
    process = subprocess.Popen(
        [*COMMAND, *with_task(*arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    printed = []
    for line in process.stderr:
        printed.append(line)
        if line.startswith("waiting: hidden cases"):
            return process
    raise AssertionError("".join(printed))


def test_a_run_is_scored_after_other_agents_on_its_cases_ended(neighbour, tmp_path):
    apart = Running(tmp_path / "apart", LEAVES, **{VARIABLE: str(tmp_path / "other-locks")})
    assert apart.outcome() == "scored" and neighbour.process.poll() is None, "the control: nothing else delays it"
    run = Running(tmp_path / "run", LEAVES)
    assert wait_until(lambda: "waiting: " in run.said or run.process.poll() is not None)
    assert f"process {neighbour.process.pid} (agent: {neighbour.root})" in run.said, run.said
    assert f"evopolicygym finish {run.root}" in run.said
    assert kinds(run.root)[-1] in ("closed", "inspected") and run.process.poll() is None
    run.process.send_signal(signal.SIGINT)  # which loses nothing
    run.process.communicate(timeout=60)
    assert run.process.returncode == 130
    finish = waiting("finish", run.root, "--json")
    gone = leave(neighbour)
    out, err = finish.communicate(timeout=240)
    assert finish.returncode == 0 and json.loads(out)["outcome"]["kind"] == "scored", err
    assert first_hidden(run.root) > gone and first_hidden(neighbour.root) > gone > first_hidden(apart.root)
    assert not (neighbour.root / "workspace" / "seen").read_text(), "the agent sees the locks"


def test_every_command_that_plays_hidden_cases_waits(neighbour, tmp_path, serve):
    """But not what plays train cases, nor a run without anything to score."""
    played = Running(tmp_path / "played", LEAVES, **{VARIABLE: str(tmp_path / "other-locks")})
    server = serve(*SMALL)
    server.policy()
    assert server.submit([0])[0] == 200 and played.outcome() == "scored"
    policy = write_policy(tmp_path / "policy", policy_source())
    evaluate = ("evaluate", policy, TASK, "--seeds", "paper", "--cases", "0", "--jobs", "1", "--split")
    assert command(*evaluate, "train").returncode == 0
    idle = subprocess.run(run_arguments(tmp_path / "idle", "true"), capture_output=True, text=True, timeout=240)
    assert json.loads(idle.stdout)["outcome"]["kind"] == "no_ok_submit" and "waiting" not in idle.stderr
    verify, heldout = waiting("verify", played.root, "--jobs", "1"), waiting(*evaluate, "heldout")
    finish, validation = waiting("finish", server.root), waiting(*evaluate, "validation")
    validation.send_signal(signal.SIGINT)
    validation.communicate(timeout=60)
    assert validation.returncode == 130 and "validated" not in kinds(server.root)
    leave(neighbour)
    for process in (verify, heldout, finish):
        process.communicate(timeout=240)
        assert process.returncode == 0


def test_no_agent_starts_while_hidden_cases_of_its_task_are_played(locks, tmp_path):
    with hidden_cases_lock(TOY, "a test", "Wait."):
        run = Running(tmp_path / "run", LEAVES)
        assert wait_until(lambda: "waiting: no agent starts" in run.said or run.process.poll() is not None)
        assert "(hidden: a test)" in run.said and f"run --resume {run.root}" in run.said
        assert "prompted" not in kinds(run.root)
    assert run.outcome() == "scored"


def test_eager_validation_is_refused_and_old_runs_that_had_it_still_read(serve, tmp_path):
    refused = command("serve", TASK, "--run", tmp_path / "run", "--validate", "eager")
    assert refused.returncode == 2 and "was removed" in refused.stderr and not (tmp_path / "run").exists()
    server = serve(*SMALL, name="old")
    server.policy()
    assert server.submit([0])[0] == 200
    server.kill()
    reconfigure(server.root, 'validate_when = "eager"', agreed=True)
    rewrite(server.root, lambda opened: opened["facts"]["options"].__setitem__("validate_when", "eager"))
    assert command("finish", server.root).returncode == 0
    assert command("verify", server.root).returncode == 0
