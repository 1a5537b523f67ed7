"""The smallest agents: nothing, the starter, random policies, and the submissions of an earlier run again."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from builtin_helpers import play_builtin

from conftest import policy_source
from evopolicygym.runs.run_status import read_state
from evopolicygym.tasks.registry import CORE16_ORDER
from server_helpers import command


def submissions(server):
    return [
        (submission.charged.checkpoint.hash, submission.charged.cases)
        for submission in read_state(server.root).submissions.values()
    ]


def test_nop_submits_nothing(serve):
    server = serve()
    assert play_builtin(server, "nop").returncode == 0
    assert server.remaining() == 128


def test_starter_submits_the_starter_once(serve):
    server = serve()
    starter = (server.workspace / "system" / "policy.py").read_bytes()
    assert [play_builtin(server, "starter").returncode for _ in range(2)] == [0, 0]
    assert server.remaining() == 124
    ((checkpoint, cases),) = submissions(server)
    assert (server.root / "checkpoints" / checkpoint / "policy.py").read_bytes() == starter and cases == (0, 1, 2, 3)


SHOTS = ("--budget", "6", "--validation-cases", "1", "--heldout-cases", "1", "--jobs", "1", "--seeds", "paper")


def test_shotgun_submits_different_policies_and_needs_no_feedback(serve):
    """Whatever the spaces; started twice, and without its feedback in between, it plays no more than its budget."""
    server = serve(*SHOTS, task="toys:Nested-v0")
    assert play_builtin(server, "shotgun").returncode == 0
    fired = submissions(server)
    assert [cases for _, cases in fired] == [(number,) for number in range(6)] and server.remaining() == 0
    assert len({checkpoint for checkpoint, _ in fired}) == 6
    shutil.rmtree(server.workspace / "feedback")
    assert play_builtin(server, "shotgun").returncode == 0 and submissions(server) == fired
    record = server.finish()
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}
    assert all(submission["train"]["errors"] == [None] for submission in record["submissions"])


def test_shotgun_is_a_function_of_its_seed_and_stops_where_it_is_told(serve):
    runs = []
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        server = serve(*SHOTS, name=name)
        assert play_builtin(server, "shotgun", seed, options=["--policies", "4"]).returncode == 0
        assert server.remaining() == 2
        runs.append(submissions(server))
    assert runs[0] == runs[1] and not {checkpoint for checkpoint, _ in runs[0]} & {
        checkpoint for checkpoint, _ in runs[2]
    }


def test_shotgun_is_an_agent_of_the_command_line(tmp_path):
    options = ("--agent", "shotgun", "--option", "policies=3", "--run", tmp_path / "run", *SHOTS)
    done = command("run", "toys:Toy-v0", "--json", *options)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert len(record["submissions"]) == 3 and record["outcome"]["kind"] == "scored"


@pytest.mark.slow
@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_shotgun_plays_every_task(serve, slug):
    server = serve("--budget", "2", *SHOTS[2:], task=f"core16/{slug}")
    assert play_builtin(server, "shotgun").returncode == 0
    record = server.finish()
    assert record["budget"]["remaining"] == 0
    assert all(submission["train"]["errors"] == [None] for submission in record["submissions"])


def test_a_judge_that_fails_before_it_charges_is_asked_again(serve):
    server = serve()
    store = server.root / "checkpoints"
    store.rename(server.root / "away")
    store.touch()  # no checkpoint can be written
    assert server.submit([0])[0] == 503
    with ThreadPoolExecutor(1) as player:
        done = player.submit(play_builtin, server, "starter")
        time.sleep(1.5)
        assert not done.done()
        store.unlink()
        (server.root / "away").rename(store)
        assert done.result().returncode == 0
    assert server.remaining() == 124


def test_resubmit_repeats_an_earlier_run(serve, tmp_path):
    """Also where a checkpoint has folders, and fewer files than the one before it."""
    earlier = serve(name="earlier")
    earlier.policy(policy_source("return 1"), helper="x = 1")
    (earlier.workspace / "system" / "data").mkdir()
    (earlier.workspace / "system" / "data" / "table.txt").write_text("1")
    earlier.submit([0, 1])
    for path in ("helper.py", "data/table.txt"):
        (earlier.workspace / "system" / path).unlink()
    (earlier.workspace / "system" / "data").rmdir()
    earlier.policy(policy_source("return 0.5"))
    earlier.submit([5, 5, 2])
    plan = tmp_path / "plan.json"
    done = submissions(earlier)
    steps = [{"folder": f"earlier/checkpoints/{checkpoint}", "cases": cases} for checkpoint, cases in done]
    plan.write_text(json.dumps({"submissions": steps}))
    again = serve(name="again")
    assert play_builtin(again, "resubmit", EVOPOLICYGYM_PLAN=str(plan)).returncode == 0
    assert submissions(again) == done


def test_resubmit_says_what_is_wrong_with_its_plan(serve, tmp_path):
    server = serve()
    assert "EVOPOLICYGYM_PLAN" in play_builtin(server, "resubmit").stderr
    plan = tmp_path / "plan.json"
    plan.write_text('{"submissions": [{"folder": "nowhere", "cases": [0]}]}')
    assert "nowhere is not a folder" in play_builtin(server, "resubmit", EVOPOLICYGYM_PLAN=str(plan)).stderr
    assert server.remaining() == 128
