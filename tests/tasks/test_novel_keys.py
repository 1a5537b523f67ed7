"""What is demanded of a drawn world, and the check of many keys: resumed, limited in time, and printed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from evopolicygym import UserError
from evopolicygym.tasks.novel.generate import CACHE_VARIABLE, _cached, search_draws
from evopolicygym.tasks.novel.key_checks import check_keys, chosen_tasks, public_key, read_checks, summarise
from evopolicygym.tasks.novel.measure import LEAST_ERRORS, LEAST_SPREADS, MOST_SEARCHED, WorldMeasure

TASK = "novel/rules-1"


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
