"""The smallest agents: nothing, the starter, and the submissions of an earlier run again."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

from conftest import policy_source
from evopolicygym.runs.look import look
from playing import play


def submissions(server):
    return [(one.charged.checkpoint.hash, one.charged.cases) for one in look(server.root).submissions.values()]


def test_nop_submits_nothing(serve):
    server = serve()
    assert play(server, "nop").returncode == 0
    assert server.remaining() == 128


def test_starter_submits_the_starter_once(serve):
    server = serve()
    starter = (server.workspace / "system" / "policy.py").read_bytes()
    assert [play(server, "starter").returncode for _ in range(2)] == [0, 0]
    assert server.remaining() == 124
    ((checkpoint, cases),) = submissions(server)
    assert (server.root / "checkpoints" / checkpoint / "policy.py").read_bytes() == starter and cases == (0, 1, 2, 3)


def test_a_judge_that_fails_before_it_charges_is_asked_again(serve):
    server = serve()
    store = server.root / "checkpoints"
    store.rename(server.root / "away")
    assert server.submit([0])[0] == 503
    with ThreadPoolExecutor(1) as player:
        done = player.submit(play, server, "starter")
        time.sleep(1.5)
        assert not done.done()
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
    assert play(again, "resubmit", EVOPOLICYGYM_PLAN=str(plan)).returncode == 0
    assert submissions(again) == done


def test_resubmit_says_what_is_wrong_with_its_plan(serve, tmp_path):
    server = serve()
    assert "EVOPOLICYGYM_PLAN" in play(server, "resubmit").stderr
    plan = tmp_path / "plan.json"
    plan.write_text('{"submissions": [{"folder": "nowhere", "cases": [0]}]}')
    assert "nowhere is not a folder" in play(server, "resubmit", EVOPOLICYGYM_PLAN=str(plan)).stderr
    assert server.remaining() == 128
