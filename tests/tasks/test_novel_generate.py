"""The collection of generated tasks: one key per family here, ten per family and level in the long proof."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import evopolicygym
from evopolicygym import UserError
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel
from evopolicygym.tasks.contract import brief_text, first_sentence, render
from evopolicygym.tasks.novel.generate import (
    CACHE_VARIABLE,
    FAMILIES,
    LEVELS,
    _cached,
    _stored,
    generated,
    novel,
    scale_problem,
    world_key,
)
from evopolicygym.tasks.novel.key_checks import check_keys, summarise
from evopolicygym.tasks.novel.measure import MOST_SEARCHED
from evopolicygym.tasks.task import Task

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
MEASURED = {"creature": pytest.mark.slow}  # its expert is searched for, which takes a minute
CHEAP = (("rules", 1), ("rules", 2))  # ten keys in ten seconds
RECORDED = {"draw": 0, "low": 1.0, "high": 2.0}


def drawn(family: str, key: bytes = KEY, text: TextLevel = TextLevel.BRIEF) -> Task:
    """Return draw 0, without measuring it."""
    return generated(novel()[f"novel/{family}-1"].seen(TaskView(text)), key, RECORDED)


def text_of(task: Task) -> str:
    env = simulator.make(task)
    return render(task, *simulator.schemas(task, env))


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_tell_the_rules_at_full_alone(family):
    full, brief, blind = (text_of(drawn(family, text=level)) for level in ("full", "brief", "blind"))
    task = drawn(family)
    assert all(part in full for part in (task.reward, task.termination, task.dynamics) if part)
    assert task.dynamics and task.dynamics not in brief
    assert all(sentence == first_sentence(sentence) for sentence in vars(brief_text(task)).values())
    assert not {"novel", family, "Gymnasium"} & set(blind.replace("/", " ").replace("-", " ").split())
    assert "Gymnasium" not in brief


@pytest.mark.parametrize("family", FAMILIES)
def test_the_world_key_is_in_nothing_that_is_shown(family):
    task, key = drawn(family), world_key(f"novel/{family}-1", KEY)
    shown = (repr(task), json.dumps(task.env_meta()), json.dumps(task.env_options), text_of(task), task.view.world_id())
    assert task.view.world_key == key
    assert not any(secret.hex() in text or repr(secret) in text for text in shown for secret in (key, KEY))


@pytest.mark.parametrize("family", FAMILIES)
def test_another_key_is_another_task(family):
    first, other = drawn(family), drawn(family, OTHER)
    assert first.view.world_id() != other.view.world_id()
    assert (first.dynamics, first.reward, first.start) != (other.dynamics, other.reward, other.start)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"draw": -1, "low": 0.0, "high": 1.0},
        {"draw": True, "low": 0.0, "high": 1.0},
        {"draw": 0, "low": 1.0, "high": 1.0},
        {"draw": 0, "low": 0.0, "high": float("nan")},
        {"draw": 10**9, "low": 0.0, "high": 1.0},
        {"draw": 0, "low": 0.0, "high": 10**400},
        {"draw": "0", "low": "0", "high": "1"},
    ],
)
def test_a_forged_draw_is_refused(options):
    with pytest.raises(UserError, match="no valid draw"):
        generated(novel()["novel/control-1"], KEY, options)


@pytest.mark.parametrize("family", [pytest.param(name, marks=MEASURED.get(name, ())) for name in FAMILIES])
def test_a_world_is_found_and_kept(family, tmp_path, capsys, monkeypatch):
    """Whoever asks first waits and is told why; later the cache answers, also for `load_task` and `describe_task`."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    _cached.cache_clear()
    key = tmp_path / "seal.key"
    key.write_text(KEY.hex())
    key.chmod(0o600)
    task = evopolicygym.load_task(f"novel/{family}-1", seal_key=key)
    assert f"drawing novel/{family}-1" in capsys.readouterr().err
    assert task.env_options["low"] < task.env_options["high"]
    assert evopolicygym.describe_task(f"novel/{family}-1", seal_key=key).task == task
    settings = RunSettings.make(task=task.id, seal_key=key)
    assert settings.played_task(False, {"env_options": task.env_options}) == task
    _cached.cache_clear()  # as in another process: the file is read
    assert evopolicygym.load_task(task.id, seal_key=key) == task
    assert not capsys.readouterr().err


def test_neither_an_edited_cache_file_nor_a_forged_scale_is_believed(tmp_path, capsys, monkeypatch):
    """A file with another scale, one without a code, one under the name of another task; then a record."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    _cached.cache_clear()
    key = world_key("novel/rules-1", KEY)
    drawn = _cached("rules", 1, key)
    (path,) = (tmp_path / "novel").glob("*.json")
    entry = json.loads(path.read_text())
    other = path.with_name("0" * 64 + ".json")
    other.write_text(path.read_text())
    assert _stored(path, key) == drawn
    assert _stored(path, OTHER) is None and _stored(other, key) is None
    text = json.dumps(json.loads(entry["drawn"]) | {"high": 1e-9})
    for forged in ({**entry, "drawn": text}, json.loads(text), {"drawn": text, "code": 1}, []):
        path.write_text(json.dumps(forged))
        assert _stored(path, key) is None
    task = generated(novel()["novel/rules-1"], KEY, drawn.options())
    assert scale_problem(task) is None
    easier = replace(task, env_options=task.env_options | {"high": drawn.low + 1e-3})
    assert "measured here it is" in str(scale_problem(easier))


@pytest.mark.parametrize(
    ("family", "level"),
    [
        pytest.param(family, level, marks=() if (family, level) in CHEAP else pytest.mark.slow)
        for family in FAMILIES
        for level in LEVELS
    ],
)
def test_ten_keys_give_worlds_worth_playing(family, level):
    task = f"novel/{family}-{level}"
    (summary,) = summarise(check_keys([task], 10, processes=2))
    assert not summary.errors
    assert summary.trivial < summary.expert and summary.searched <= MOST_SEARCHED
    assert summary.accepted >= 0.3


@pytest.mark.parametrize("options", [None, [], "draw", 1, {}, {"draw": 0}, RECORDED | {"draw": 10**6}])
def test_a_draw_that_a_record_does_not_hold_is_not_searched_for(options, monkeypatch, tmp_path):
    """A forged record had the reader draw and measure for minutes, and filled its cache; or it was a traceback."""

    def search(*arguments: object) -> None:
        raise AssertionError("drawn anew")

    monkeypatch.setattr("evopolicygym.tasks.novel.generate._cached", search)
    (tmp_path / "seal.key").write_text(KEY.hex())
    (tmp_path / "seal.key").chmod(0o600)
    settings = RunSettings.make(task="novel/rules-1", seal_key=tmp_path / "seal.key")
    assert settings.played_task(False, {"env_options": RECORDED}).env_options == RECORDED, "control"
    with pytest.raises(UserError, match="no valid draw"):
        settings.played_task(False, {"env_options": options})
    with pytest.raises(AssertionError, match="drawn anew"):
        settings.played_task(False)
