"""Same checkpoint, same case: the same return to the last bit, in any process and any order."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import one_of_each_kind, policy_source, toy_task, train_cases
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.execution.records import Episode, EpisodeResult
from evopolicygym.fast.catalogue import CATALOGUE
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.splits import PaperSplits, SealedSplits, Split, cases
from evopolicygym.tasks.task import Task

SHORT = 120  # steps; long enough for every source of randomness to show, short enough for CI


def facts(task: Task, folder: Path, order: list[int], jobs: int) -> dict[int, tuple[str, int]]:
    """Return (as hexadecimal) and length by case, from an engine with new processes."""
    listed = train_cases(task, len(order))
    with LocalEngine(task, jobs) as engine:
        checkpoint = engine.store.snapshot(folder)
        outcomes = list(engine.run(Episode(i, checkpoint, listed[i]) for i in order))
    assert all(isinstance(outcome, EpisodeResult) and outcome.error is None for outcome in outcomes), outcomes
    return {
        outcome.number: (outcome.score.hex(), outcome.length)
        for outcome in outcomes
        if isinstance(outcome, EpisodeResult)
    }


def assert_exact(task: Task, folder: Path, count: int) -> None:
    forward = list(range(count))
    expected = facts(task, folder, forward, jobs=1)
    assert facts(task, folder, forward, jobs=2) == expected
    assert facts(task, folder, forward[::-1], jobs=2) == expected


@pytest.mark.parametrize("slug", one_of_each_kind())
def test_jobs_order_and_process_do_not_matter(slug, tmp_path):
    task = core16()[f"core16/{slug}"]
    assert_exact(replace(task, horizon=min(task.horizon, SHORT)), probe_folder(tmp_path, "random"), 3)


@pytest.mark.slow
@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_whole_episodes_are_exact(slug, tmp_path):
    assert_exact(core16()[f"core16/{slug}"], probe_folder(tmp_path, "random"), 6)


@pytest.mark.parametrize(
    ("slug", "play", "mean"),
    [
        ("pusher", "zero", -54.17974515479469),
        pytest.param("ant", "zero", 994.1553423080062, marks=pytest.mark.slow),
        ("roundabout", "constant-1", 9.520833333333334),
    ],
)
def test_the_papers_numbers_to_the_last_digit(slug, play, mean, tmp_path):
    task = core16()[f"core16/{slug}"]
    if play == "constant-1":
        (tmp_path / "policy.py").write_text(policy_source(act="return 1"))
    else:
        probe_folder(tmp_path, play)
    heldout = cases(PaperSplits(), task.id, Split.HELDOUT, list(range(32)))
    with LocalEngine(task, jobs=2) as engine:
        assert evaluate_folder(engine, task, tmp_path, heldout, "paper").mean == mean


def test_the_track_of_the_papers_first_case():
    env = simulator.make(core16()["core16/car-racing"])
    simulator.reset(env, 47113601)
    assert len(env.unwrapped.track) == 342


@pytest.mark.parametrize("slug", ["acrobot", "bipedal-walker", "reacher", "four-rooms", "parking", "fetch-push"])
def test_sealed_seeds_are_accepted_by_every_simulator(slug, tmp_path):
    task = replace(core16()[f"core16/{slug}"], horizon=5)
    sealed = cases(SealedSplits(b"s" * 32), task.id, Split.TRAIN, [0, 1])
    with LocalEngine(task, jobs=2) as engine:
        report = evaluate_folder(engine, task, probe_folder(tmp_path, "random"), sealed, "sealed")
    assert report.failed == 0
    assert not report.faults


SOURCES_OF_RANDOMNESS = """
print(os.urandom(8).hex(), os.getrandom(8).hex(), random.random(), np.random.rand(), np.random.default_rng().random())
print(random.Random().random(), secrets.token_hex(4), uuid.uuid4(), random.SystemRandom().random())
random.seed(); np.random.seed()
print(random.random(), np.random.RandomState().rand(), hash("text"), {"a", "b", "c", "d"})
"""


def test_unseeded_randomness_repeats_by_case_and_differs_between_cases(policy_player):
    source = policy_source(top="import random, secrets, uuid", act=f"{SOURCES_OF_RANDOMNESS}\nreturn 1")
    first, second = policy_player().outcomes(source, 2), policy_player(jobs=2).outcomes(source, 2)
    assert [result.stdout for result in first] == [result.stdout for result in second]
    assert first[0].stdout != first[1].stdout
    assert first[0].error is None


def test_no_state_passes_between_episodes(policy_player):
    source = policy_source(top="import json\njson.seen = getattr(json, 'seen', 0) + 1", act="return json.seen")
    assert [round(result.score - result.score % 1) for result in policy_player().outcomes(source, 3)] != []
    lengths = {(result.length, result.score.hex()) for result in policy_player().outcomes(source, 1) * 2}
    assert len(lengths) == 1
    assert all(result.score < 20 for result in policy_player().outcomes(source, 3))


def test_means_do_not_depend_on_order():
    scores = [0.1] * 10 + [1e16, -1e16]
    assert math.fsum(scores) == math.fsum(reversed(scores))


def test_a_policy_may_change_its_observation(policy_player):
    source = policy_source(act="obs += 1; obs[:] = 0; return 1")
    assert policy_player(toy_task()).play(source).error is None


@pytest.mark.parametrize("slug", one_of_each_kind())
def test_fast_and_stock_environments_score_the_same(slug, tmp_path):
    task = replace(core16()[f"core16/{slug}"], horizon=min(core16()[f"core16/{slug}"].horizon, 40))
    (case,) = train_cases(task, 1)
    scores = []
    for stock in (True, False):
        with LocalEngine(task, stock=stock) as engine:
            checkpoint = engine.store.snapshot(probe_folder(tmp_path, "random"))
            (outcome,) = engine.run([Episode(0, checkpoint, case)])
            assert engine.implementation == ("stock" if stock or task.env_id not in CATALOGUE else "fast")
        assert isinstance(outcome, EpisodeResult)
        scores.append((outcome.score.hex(), outcome.length))
    assert scores[0] == scores[1]
