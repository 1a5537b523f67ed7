"""Failures of the judge itself: refunds, a full disk, folders that cannot be written. Nothing is lost."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
from pathlib import Path

from conftest import policy_source
from evopolicygym.judge.ledger import read
from evopolicygym.runs.run_status import read_state
from evopolicygym.server import owner_socket
from process_helpers import wait_until
from server_helpers import SMALL, Server, command

PR_CAPBSET_DROP = 24
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
SLOW = policy_source(act="import time; time.sleep(0.1); return 1")


def feedback(server: Server) -> list[list[str]]:
    """Return the names in the feedback folders of the judge and of the agent."""
    folders = server.root / "feedback", server.workspace / "feedback"
    return [sorted(path.name for path in folder.iterdir()) if folder.exists() else [] for folder in folders]


def test_a_fault_refunds_without_feedback_and_three_end_the_run(serve, tmp_path):
    marker = tmp_path / "marker"
    server = serve(task="toys:Flaky-v0", TOY_MARKER=str(marker))
    server.policy()
    for count in (1, 2, 3):
        marker.unlink(missing_ok=True)
        code, fault = server.submit([0, 1], Idempotency_Key=f"faulty-{count}")
        assert code == 503 and fault["status"] == "fault" and fault["summary"] is None
        assert "refunded" in fault["message"] and fault["remaining_budget"] == 128 - 2 * (count - 1)
        assert f"submit_{2 * count - 1:03}" not in str(feedback(server))
        assert server.submit([0, 1], Idempotency_Key=f"faulty-{count}") == (code, fault)
        if count < 3:
            assert server.submit([0, 1])[1]["status"] == "ok"
    assert feedback(server) == [["submit_002", "submit_004"]] * 2
    assert server.submit([0])[1]["status"] == "run_closed"
    record = server.finish(exit_code=4)
    assert record["budget"]["charged"] == 4 and record["budget"]["refunds"] == 3
    # what was measured counts: an agent that can break the judge must not have its run done again
    assert record["outcome"]["kind"] == "scored" and record["outcome"]["heldout"] is not None
    assert record["times"]["closed_because"] == "judge_faults"
    assert "only once" in record["outcome"]["cause"]
    assert command("verify", server.root, env=os.environ | {"TOY_MARKER": str(marker)}).returncode == 0


def test_a_submission_that_takes_too_long_is_charged_but_not_a_candidate(serve, tmp_path):
    task = tmp_path / "task.toml"
    task.write_text(TASK)
    server = serve(task=str(task))
    server.policy(SLOW)
    code, late = server.submit(list(range(100)))
    assert code == 200 and late["status"] == "rollout_timeout" and server.remaining() == 28
    assert len(late["summary"]["returns"]) < 100
    assert json.loads((server.workspace / "feedback/submit_001/summary.json").read_text()) == late["summary"]
    record = server.finish()
    assert record["outcome"]["kind"] == "no_ok_submit" and record["outcome"]["budget_left"] == 28
    assert record["submissions"][0]["train"] is None and record["checkpoints"][0]["validation"] is None
    assert command("verify", server.root).returncode == 0


TASK = """
env_id = "toys:Toy-v0"
title = "A toy"
family = "toys"
horizon = 10
observation_space = ""
action_space = ""
objective = "Play."
reward = "The action."
termination = "After ten steps."

[failure_return]
value = -5.0
derivation = "By decree."

[limits]
submission_wall_s = 3.0
"""


class Disk:
    """A disk that becomes full: no file of the server may grow by more than ``more`` beyond its ledger's size."""

    def __init__(self, server: Server) -> None:
        self.server, self.ledger = server, server.root / "ledger.jsonl"

    def leave(self, more: int) -> None:
        limit = self.ledger.stat().st_size + more
        resource.prlimit(self.server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def lift(self) -> None:
        resource.prlimit(self.server.process.pid, resource.RLIMIT_FSIZE, NO_LIMIT)


def test_a_full_disk_loses_nothing(serve):
    server = serve()
    server.policy()
    assert server.submit([0])[0] == 200
    sizes = {line.kind: len(raw) + 1 for line, raw in read(server.root / "ledger.jsonl")}
    disk = Disk(server)
    before = disk.ledger.read_bytes()

    disk.leave(20)  # no room for the charge
    code, fault = server.submit([0, 1], Idempotency_Key="k")
    assert code == 503 and fault["status"] == "fault" and "nothing was charged" in fault["message"]
    assert fault["remaining_budget"] == server.remaining() == 127
    assert server.submit("nonsense")[0] == 400  # a refusal stays one, though it leaves no line
    assert disk.ledger.read_bytes() == before
    disk.lift()
    assert server.submit([0, 1], Idempotency_Key="k")[1]["status"] == "ok"

    disk.leave(sizes["charged"] + sizes["judged"] - 100)  # for the charge, for a refund, not for the verdict
    code, fault = server.submit([0])
    assert code == 503 and "refunded" in fault["message"] and server.remaining() == 125
    assert feedback(server) == [["submit_001", "submit_002"]] * 2
    disk.lift()

    server.policy(policy_source(act="import time; time.sleep(0.4); return 1"))
    disk.leave(sizes["charged"] + 40)  # for the charge alone
    assert server.submit([0], wait=False, Idempotency_Key="last")[0] == 202
    (answer,) = owner_socket.send_command(
        server.root, "finish"
    )  # who waits for the outcome is told, and not left waiting
    assert "cannot write to the ledger" in answer["error"]
    assert server.process.wait(60) == 4
    assert server.process.stderr and "Traceback" not in server.process.stderr.read()
    assert read_state(server.root).running is not None
    server.start()
    assert server.submit([0], Idempotency_Key="last")[1]["status"] == "ok"
    assert server.remaining() == 124 and read_state(server.root).charged == 4


def test_a_dead_worker_is_replaced_and_nothing_is_refunded(serve):
    """A worker that died while idle is no fault of the submission."""
    server = serve()
    server.policy()
    assert server.submit([0])[0] == 200
    (worker,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    os.kill(int(worker), 9)
    assert wait_until(lambda: Path(f"/proc/{worker}/stat").read_text().split()[2] == "Z")
    assert server.submit([0])[1]["status"] == "ok"


def test_a_workspace_that_the_agent_removed(serve):
    server = serve()
    server.policy()
    assert server.submit([0])[0] == 200
    server.kill()
    server.workspace.rename(server.root / "elsewhere")
    server.workspace.symlink_to(server.root)
    server.start()
    assert server.submit([0])[1]["status"] == "snapshot_invalid"
    assert server.finish()["outcome"]["submission"] == 1
    assert not (server.root / "door.json").exists()


def test_a_submission_is_judged_only_when_its_feedback_is_delivered(serve):
    """Polls without a pause, to catch an early response."""
    server = serve()
    server.policy(policy_source(act="print('x' * 6000); return 1"))
    for number in range(1, 4):
        status, submit_id = "running", server.submit(list(range(16)), wait=False)[1]["submit_id"]
        while status == "running":
            status = server.call("GET", f"/submissions/{submit_id}")[1]["status"]
        assert status == "ok" and len(list((server.workspace / "feedback").glob("*/summary.json"))) == number


def bound(*arguments: object) -> subprocess.CompletedProcess[str]:
    """By a process that permissions bind, also where tests run as root: without CAP_DAC_OVERRIDE and _READ_SEARCH."""
    return command(*arguments, preexec_fn=_give_up_capabilities if os.geteuid() == 0 else None)


def _give_up_capabilities() -> None:
    for capability in (1, 2):
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def test_folders_that_cannot_be_written(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    (tmp_path / "file").touch()
    for run in (closed, closed / "run", tmp_path / "file", tmp_path / "file" / "run"):
        refused = bound("serve", "toys:Toy-v0", "--run", run, *SMALL)
        assert refused.returncode == 2, refused.stderr
        assert str(run) in refused.stderr and "Traceback" not in refused.stderr
    assert list(closed.iterdir()) == []


def test_a_run_that_cannot_be_written(serve):
    server = serve()
    server.policy()
    server.submit([0])
    server.kill()
    before = (server.root / "ledger.jsonl").read_bytes()
    for name in (".lock", "ledger.jsonl"):  # the second is found only after the engine was started
        (server.root / name).chmod(0o444)
        refused = bound("finish", server.root, "--jobs", "1")
        assert refused.returncode == 2 and f"{name}: Permission denied" in refused.stderr
        assert "Traceback" not in refused.stderr
        (server.root / name).chmod(0o600)
    assert (server.root / "ledger.jsonl").read_bytes() == before
