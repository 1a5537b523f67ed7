"""A kill at every named instant, then a restart: nothing is lost, nothing charged twice, every reply stays true.

Each process is armed with the instant at which it is to die, counted so that what it recovers from the kill before is
let pass and checked first: one start for each kill.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from conftest import policy_source
from evopolicygym.judge import failpoints
from evopolicygym.judge.events import Repeated, Scored, Validated
from evopolicygym.judge.feedback import digest
from evopolicygym.judge.ledger import read
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.run_status import read_state
from server_helpers import SMALL, Server, command

CASES = [3, 1, 3]
COST = len(CASES)
OPENING = ("opening", "ledger-line-torn", "ledger-line-unsynced", "record-written")
SUBMITTING = (
    "snapshot-taken@2",  # after one submission that nothing interrupts
    "ledger-line-torn@2",  # the charge: Owned is the first line of each process
    "ledger-line-unsynced@2",
    "charged",
    "loaded@2",
    f"episode-played@{COST + 2}",
    "feedback-staged@2",
    "feedback-written@2",
    "ledger-line-torn@4",  # the verdict: Owned, the verdict that was due, a charge, a verdict
    "ledger-line-unsynced@4",
    "judged",
    "feedback-delivered@11",  # on takeover the feedback of ten submissions is delivered, or found delivered
)
FINISHING_SERVED = ("closed", "hidden-episode-played@2")
FINISHING_ALONE = ("validated", "selected", "scored", "repeated", "first-scored", "record-written@2", "finished")
KILLED = -signal.SIGKILL
pytestmark = pytest.mark.timeout(1200)  # dozens of processes, perhaps on a busy machine


def armed(name: str) -> dict[str, str]:
    return {failpoints.VARIABLE: name}


def test_every_failpoint_has_a_kill():
    chains = OPENING + SUBMITTING + FINISHING_SERVED + FINISHING_ALONE
    assert {name.partition("@")[0] for name in chains} == set(failpoints.NAMES)


def test_kills_while_a_run_is_opened(serve):
    server = serve(**armed(OPENING[0]))
    for following in (*OPENING[1:], None):
        assert server.process.wait(120) == KILLED and server.api == ""
        if following == OPENING[1]:  # as a kill leaves it in the middle of writing the starter
            (server.workspace / "system" / ".policy.py-cut").touch()
        server.start(**(armed(following) if following else {}))
    assert server.remaining() == 128 and os.listdir(server.workspace / "system") == ["policy.py"]
    server.policy()
    assert server.submit([0])[1]["status"] == "ok"


class Agent:
    """Submits, remembers every reply, and asks again."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.replies: dict[str, tuple[int, str]] = {}

    def post(self, key: str) -> tuple[int, str]:
        body = json.dumps({"env_instances": CASES})
        code, reply = self.server.call("POST", "/submit", body.encode(), Idempotency_Key=key)
        return code, json.dumps(reply)

    def submit(self, key: str) -> dict[str, object]:
        self.replies[key] = code, reply = self.post(key)
        assert code == 200, reply
        parsed: dict[str, object] = json.loads(reply)
        return parsed

    def is_cut_off(self, key: str) -> bool:
        """The connection breaks without an answer, because the server was killed."""
        with pytest.raises(OSError):
            self.post(key)
        return self.server.process.wait(120) == KILLED

    def check_replies(self) -> None:
        """Check that repeated requests, by key and by number, get equal responses."""
        for key, (_, reply) in self.replies.items():
            assert self.post(key) == (200, reply)
            submit_id = json.loads(reply)["submit_id"]
            assert json.dumps(self.server.call("GET", f"/submissions/{submit_id}")[1]) == reply


def check_feedback(root: Path) -> None:
    """Both copies of every submission are what was judged."""
    for one in read_state(root).submissions.values():
        assert one.judged and len(one.judged.summary["returns"]) == COST
        copies = root / "feedback" / one.name, root / "workspace" / "feedback" / one.name
        assert [digest(copy) for copy in copies] == [one.judged.feedback] * 2
        assert json.loads((copies[1] / "summary.json").read_text()) == one.judged.summary


def check_leftovers(root: Path) -> None:
    for folder in ("feedback", "checkpoints"):
        assert not list((root / folder).glob(".*"))


def test_kills_during_a_submission(serve):
    budget = COST * (len(SUBMITTING) - 1)
    server = serve(*SMALL, "--budget", str(budget), **armed(SUBMITTING[0]))
    server.policy()
    agent, spent = Agent(server), COST
    reference = agent.submit("key-00")["summary"]
    keys = ["key-01"] * 3 + [f"key-{number:02}" for number in range(2, len(SUBMITTING) - 1)]  # two of the kills
    for key, name, following in zip(keys, SUBMITTING, (*SUBMITTING[1:], None), strict=True):
        assert agent.is_cut_off(key), name
        charged = {
            submission.charged.key: submission.cost for submission in read_state(server.root).submissions.values()
        }
        assert sum(charged.values()) == spent + COST * (key in charged and key not in agent.replies), name
        server.start(**(armed(following) if following else {}))
        if following in SUBMITTING[1:3]:  # come before the first charge: the next kill is on the same submission
            assert key not in charged and server.remaining() == budget - spent
            continue
        assert key in charged
        summary = agent.submit(key)["summary"]
        cpu = {"policy_cpu_s", "act_cpu_ms", "longest_act_cpu_ms"}
        varies = {"submit_id", "feedback", "wall_time_s", "remaining_budget", "change"} | cpu
        assert all(summary[name] == reference[name] for name in reference.keys() - varies)
        spent += COST
        assert server.remaining() == summary["remaining_budget"] == budget - spent
    agent.check_replies()
    check_feedback(server.root)
    check_leftovers(server.root)
    check_over(server, budget)


def check_over(server: Server, budget: int) -> None:
    """The last kill came between the last verdict and the closing of the run: the restart closed it."""
    assert server.submit([0])[1]["status"] == "run_closed"
    record = server.finish()
    assert (record["budget"]["charged"], record["budget"]["remaining"]) == (budget, 0)
    assert record["times"]["closed_because"] == "budget_spent"
    assert record["outcome"]["kind"] == "scored" and not record["outcome"]["stopped_early"]
    assert record["outcome"]["submission"] == budget // COST
    verified = command("verify", server.root, "--jobs", "1")
    assert verified.returncode == 0, verified.stdout


def test_kills_during_hidden_scoring(serve):
    """The owner of the run dies: the `finish` that waits for it reports this, and the next one continues."""
    server = serve(**armed(FINISHING_SERVED[0]))
    for act in ("return 1", "return 2", "return 2"):
        server.policy(policy_source(act=act))
        assert server.submit([0, 1])[0] == 200
    for following in (*FINISHING_SERVED[1:], None):
        cut_off = command("finish", server.root)
        assert server.process.wait(120) == KILLED
        assert cut_off.returncode == 2 and "Nothing is lost" in cut_off.stderr, cut_off.stderr
        if following:
            server.start(**armed(following))
            assert server.submit([0])[1]["status"] == "run_closed"
    for name in FINISHING_ALONE:
        died = command("finish", server.root, "--jobs", "1", env=os.environ | armed(name))
        assert died.returncode == KILLED, name
    check_outcome(server)


def check_outcome(server: Server) -> None:
    finished = [command("finish", server.root, "--jobs", "1", "--json") for _ in range(2)]
    assert [done.returncode for done in finished] == [0, 0] and finished[0].stdout == finished[1].stdout
    record = json.loads(finished[0].stdout)
    assert record["status"] == "finished" and record["outcome"]["kind"] == "scored"
    assert record["outcome"]["submission"] == 3 and record["outcome"]["repeat"] == "equal"
    events = [line.event() for line, _ in read(server.root / "ledger.jsonl")]
    counts = {kind: sum(isinstance(event, kind) for event in events) for kind in (Validated, Scored, Repeated)}
    assert counts == {Validated: 2, Scored: 2, Repeated: 1}  # what was done is not done again
    first, selected = (checkpoint["heldout"]["mean"] for checkpoint in record["checkpoints"])
    assert first < selected == record["outcome"]["heldout"]["mean"]
    assert read_state(server.root).phase is RunPhase.FINISHED
    verified = command("verify", server.root, "--jobs", "1")
    assert verified.returncode == 0, verified.stdout
