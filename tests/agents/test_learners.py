"""Search methods as agents: whole runs over the API, repeatable to the bit, also after kills; in the agent's jail."""

from __future__ import annotations

import json

import pytest
from builtin_helpers import play_builtin, start_builtin
from test_tuner import submissions, wait_for_budget

from evopolicygym.agents import definitions
from evopolicygym.agents.builtin.learners.rl import BATCH
from evopolicygym.agents.builtin.learners.search_methods import METHODS
from evopolicygym.tasks.registry import CORE16_ORDER
from server_helpers import command

HIDDEN_CASES = ("--validation-cases", "1", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper")


def test_every_method_is_an_agent():
    assert {*METHODS, *BATCH} <= set(definitions.names())
    for name in (*METHODS, *BATCH):
        assert definitions.load(name).argv[:4] == ("${program}", "-m", "builtin.learners", name)
        assert definitions.load(name).options == (set() if name in BATCH else {"hidden", "population"})


@pytest.mark.parametrize("name", BATCH)
def test_rl_without_trajectories_stops_after_one_submission(serve, name):
    server = serve("--budget", "40", "--feedback", "summary", *HIDDEN_CASES, task="learnable_toys:Sorting-v0")
    assert play_builtin(server, "learners", options=[name]).returncode == 0
    assert server.remaining() == 40 - BATCH[name]


def test_same_seed_same_submissions_even_when_killed(serve):
    """Killed twice, once while a submission may be under way; then it continues, and spends the budget exactly."""
    toy = "learnable_toys:Sorting-v0"
    calm, hunted = (serve("--budget", "48", *HIDDEN_CASES, task=toy, name=name) for name in ("calm", "hunted"))
    first = start_builtin(calm, "learners", 3, ["ars", "--population", "4"])
    for remaining in (40, 20):
        second = start_builtin(hunted, "learners", 3, ["ars", "--population", "4"])
        wait_for_budget(hunted, remaining)
        second.kill()
        second.wait()
    assert first.wait() == 0
    assert play_builtin(hunted, "learners", 3, ["ars", "--population", "4"]).returncode == 0
    assert submissions(calm) == submissions(hunted)
    assert calm.remaining() == hunted.remaining() == 0
    record = calm.finish()
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}
    assert all(set(submission["train"]["errors"]) == {None} for submission in record["submissions"])


@pytest.mark.parametrize("toy", ["Nested-v0", "Aborting-v0"])
def test_every_kind_of_feedback_is_read(serve, toy):
    """Large arrays at any depth, and no trajectory at all where the simulator died."""
    server = serve("--budget", "8", *HIDDEN_CASES, task=f"toys:{toy}")
    assert play_builtin(server, "learners", options=["openes", "--population", "2"]).returncode == 0
    assert server.remaining() == 0


def test_without_trajectories_the_bounds_of_the_space_are_used(serve):
    server = serve("--budget", "20", "--feedback", "score", *HIDDEN_CASES, task="learnable_toys:Tracking-v0")
    assert play_builtin(server, "learners", options=["ga", "--population", "3"]).returncode == 0
    assert server.remaining() == 0


@pytest.mark.parametrize("agent", ["cma-es", "ppo"])
def test_it_plays_in_the_jail(tmp_path, agent):
    population = ("--option", "population=4") if agent == "cma-es" else ()
    options = ("--agent", agent, *population, "--run", tmp_path / "run", "--budget", "20")
    done = command("run", "learnable_toys:Tracking-v0", "--json", *options, *HIDDEN_CASES)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["budget"]["remaining"] == 0 and record["isolation"]["agent"] != "none"
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_every_submission_is_valid_on_every_task(serve, slug):
    server = serve("--budget", "20", *HIDDEN_CASES, task=f"core16/{slug}")
    done = play_builtin(server, "learners", options=["ars", "--population", "2"])
    assert done.returncode == 0, done.stderr
    record = server.finish()
    assert record["budget"]["remaining"] == 0
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}
    assert all(set(submission["train"]["errors"]) == {None} for submission in record["submissions"])
