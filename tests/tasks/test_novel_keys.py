"""What is demanded of a drawn world, and the check of many keys: resumed, limited in time, and printed."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from evopolicygym import UserError
from evopolicygym.tasks.novel.creature import gait
from evopolicygym.tasks.novel.generate import (
    CACHE_VARIABLE,
    SCALE_TOLERANCE,
    _cached,
    draw_world,
    measure,
    search_draws,
    task_parts,
)
from evopolicygym.tasks.novel.key_checks import check_keys, chosen_tasks, public_key, read_checks, summarise
from evopolicygym.tasks.novel.measure import (
    LEAST_ERRORS,
    LEAST_SPREADS,
    MOST_SEARCHED,
    WorldMeasure,
    expert_returns,
    features,
    measure_world,
    returns,
)

TASK = "novel/rules-1"
GOLDEN = {  # best trivial policy, search and expert of the first draw of public key 0
    "novel/rules-1": (0.0147163, 0.00735813, 0.897871),
    "novel/arcade-1": (0.52125, 0.039375, 5.04),
    "novel/control-1": (19.8634, 55.9634, 135.584),
    "novel/creature-1": (3.25209, 0.461181, 21.2186),
}


def measured(expert=10.0, noise=1.0, search=0.0, spread=0.1, trivial=0.0) -> WorldMeasure:
    wobble = [noise, -noise] * 8
    returns = {"random": [trivial - 1.0] * 16, "constant 0": [trivial] * 16}
    return WorldMeasure([expert + part for part in wobble], returns, spread, [search] * 16)


def test_a_clear_lead_is_accepted():
    assert measured().objection() is None
    assert (measured().low, measured().high) == (0.0, 10.0)


def test_a_lead_must_be_certain_large_and_out_of_reach_of_a_search():
    noise = 10.0 / LEAST_ERRORS * 16**0.5  # the lead is about LEAST_ERRORS standard errors
    assert "certain" in measured(noise=1.05 * noise).objection()
    assert measured(noise=0.95 * noise).objection() is None
    assert "certain" in measured(expert=0.0, noise=0.0).objection()
    assert "small" in measured(spread=10.1 / LEAST_SPREADS).objection()
    assert measured(spread=9.9 / LEAST_SPREADS).objection() is None
    assert "search" in measured(search=10.1 * MOST_SEARCHED).objection()
    assert measured(search=9.9 * MOST_SEARCHED).objection() is None


@pytest.mark.parametrize("task", GOLDEN)
def test_a_draw_scores_what_it_always_did(task, monkeypatch):
    """Other numbers are another task, or another scale: they need another VERSION of the family."""
    monkeypatch.setattr(gait, "SHORT_STEPS", 8000)  # the whole search takes most of a minute
    monkeypatch.setattr(gait, "WHOLE_STEPS", 4000)
    draw_world.cache_clear()  # worlds keep their gaits
    means = measure(*task_parts(task), public_key(task, 0), 0).means()
    draw_world.cache_clear()
    assert (means["trivial"], means["search"], means["expert"]) == pytest.approx(GOLDEN[task], rel=SCALE_TOLERANCE)


def test_an_expert_scores_the_same_in_cases_side_by_side():
    world = draw_world("control", 2, public_key("novel/control-2", 0), 0)
    assert expert_returns(world, [1, 2, 3]) == returns(world, world.expert, [1, 2, 3])


def test_the_features_of_a_picture_are_those_of_its_brightness():
    env = draw_world("arcade", 3, public_key("novel/arcade-3", 0), 0).make()
    pictures = []
    for env.grey in (False, True):
        env.reset(seed=5)
        pictures.append([env.step(action % env.action_space.n)[0] for action in range(40)])
    for colours, grey in zip(*pictures, strict=True):
        parts = (colours / 255.0).mean(axis=2).reshape(8, 8, 8, 8).mean(axis=(1, 3))
        assert features(colours).tolist() == features(grey).tolist()
        assert features(grey) == pytest.approx(np.tanh(parts).reshape(-1))


def test_nothing_is_searched_for_in_a_world_that_is_refused_without_it(monkeypatch):
    world = draw_world("rules", 1, public_key(TASK, 0), 0)
    monkeypatch.setattr("evopolicygym.tasks.novel.measure.expert_returns", lambda _, seeds: [0.0] * len(seeds))
    monkeypatch.setattr("evopolicygym.tasks.novel.measure.search_linear", None)  # it must not be called
    refused = measure_world(world, range(4), range(4))
    assert refused.search == [] and "certain" in refused.objection()


def test_a_check_of_keys_is_continued_and_answers_for_runs(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"other": [{"kept": True}]}))
    (first,) = check_keys([TASK], 1, path=path)
    assert first.error is None and first.draws[-1]["objection"] is None
    assert list(check_keys([TASK], 1, path=path)) == [first], "it was measured again"
    assert list(check_keys([TASK], 3, seconds=0, path=path)) == [first]
    assert json.loads(path.read_text())["other"] == [{"kept": True}]
    (summary,) = summarise([first])
    assert (summary.keys, summary.draws, summary.errors) == (1, len(first.draws), {})
    assert summary.trivial < summary.expert
    key = public_key(TASK, 0)
    assert first.drawn() == search_draws("rules", 1, key)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    _cached.cache_clear()
    monkeypatch.setattr("evopolicygym.tasks.novel.generate.search_draws", None)  # it must not be called
    first.remember()
    assert _cached("rules", 1, key) == first.drawn()
    _cached.cache_clear()
    text = path.read_text()
    path.write_text(text.replace(f'"version": {first.version}', '"version": 0'))
    assert read_checks(path) == {}, "checks of another version are not those of this one"
    path.write_text(text.replace('"spread": ', '"spread": 9'))
    assert read_checks(path) == {}, "a draw that is refused today is not kept"


def test_the_command_prints_what_keys_draw(tmp_path):
    command = [sys.executable, "-m", "evopolicygym", "task", "check", TASK, "--keys", "2", "--output", "keys.json"]
    done = subprocess.run([*command, "--jobs", "2"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accepted" in done.stdout and TASK in done.stdout
    assert len(read_checks(tmp_path / "keys.json")) == 2
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=tmp_path)
    (facts,) = json.loads(done.stdout)
    assert facts["keys"] == 2 and facts["trivial"] < facts["expert"]


def test_only_generated_tasks_have_keys():
    assert len(chosen_tasks(["novel"])) == 16
    with pytest.raises(UserError, match="core16/acrobot"):
        chosen_tasks(["core16/acrobot"])
