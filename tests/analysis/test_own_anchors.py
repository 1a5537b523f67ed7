"""Anchors that a user measures: kept in one place, found for the runs that they fit, refused for all others."""

from __future__ import annotations

import json
import os

import pytest
from synthetic_records import synthetic_run

from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.api.anchors import measure_anchors
from evopolicygym.api.statistics import anchor_files
from evopolicygym.errors import UserError
from evopolicygym.reference.anchors import (
    Anchor,
    AnchorFile,
    TaskAnchors,
    dump,
    own_anchors,
    own_anchors_path,
    stored_anchors,
)
from evopolicygym.reference.scales import scales
from evopolicygym.tasks.sealing import create_key

REACHER = "core16/reacher"
MEASURED = {"env": "Env-v1", "horizon": 500, "failure_return": -500.0, "splits": "paper"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOPOLICYGYM_ANCHORS", str(tmp_path / "anchors"))
    return tmp_path / "anchors"


def file_of(task: str, expert: float | None = None, **facts: str) -> AnchorFile:
    trivial = {name: Anchor(returns=[[0.0, 2.0], [1.0, 1.0]]) for name in ("random", "zero", "constant", "starter")}
    upper = None if expert is None else Anchor(returns=[[expert, expert]])
    anchors = TaskAnchors(
        fingerprint={"task": task, **MEASURED, **facts}, heldout_cases=2, train_cases=1, expert=upper, **trivial
    )
    return AnchorFile(schema_version=1, command="", splits_id="s", tasks={task: anchors})


def test_a_shifted_task_is_measured_and_found(tmp_path, folder):
    """Runs under the key get the random policy, a scale and a best trivial policy; runs under another key do not."""
    key = tmp_path / "seal.key"
    key.write_text("5e" * 32)  # a random key may draw two cases so easy that doing nothing beats the runs below
    key.chmod(0o600)
    made = measure_anchors(REACHER, variant="shifted", seal_key=key, heldout_cases=2, jobs=2)
    assert made.file.parent == folder and made.means()["random"] < made.means()["zero"]
    shift = made.anchors.fingerprint["variant"]
    options = {"variant": "shifted"}
    runs = [
        synthetic_run((-4.0, -5.0), REACHER, splits=made.splits_id, facts=made.anchors.fingerprint, options=options),
        synthetic_run(
            (-4.0, -5.0), REACHER, splits=made.splits_id, options=options,
            facts=made.anchors.fingerprint | {"variant": shift | {"key": "other"}},
        ),
    ]  # fmt: skip
    mine, other = (leaderboard([run], anchor_files((), [run]), draws=100).boards[0].tasks[0] for run in runs)
    assert [row.entrant for row in mine.rows] == ["codex m", "random policy"] and mine.rows[0].beats_trivial
    low = made.anchors.best_trivial(made.anchors.heldout_cases)
    assert mine.rows[0].normalised == pytest.approx((-4.5 - low) / (scales()[REACHER].high - low))
    assert mine.rows[1].normalised == pytest.approx((made.means()["random"] - low) / (scales()[REACHER].high - low))
    assert "each key of a shifted task has its own" in (other.no_anchors or "")
    assert [row.normalised for row in other.rows] == [None]


def test_tasks_of_ones_own_have_a_scale_with_an_expert():
    runs = [synthetic_run((4.0, 4.0), task, facts=MEASURED) for task in ("mine/a", "mine/b", "mine/c")]
    files = [file_of("mine/a", expert=5.0), file_of("mine/b", expert=7.0), file_of("mine/c")]
    (board,) = leaderboard(runs, files, draws=100).boards
    normalised = {table.task: table.rows[0].normalised for table in board.tasks}
    assert normalised == {"mine/a": pytest.approx(0.75), "mine/b": pytest.approx(0.5), "mine/c": None}
    (aggregate,) = board.aggregates
    assert (aggregate.name, aggregate.tasks) == ("other tasks", 2)
    assert aggregate.standings[0].normalised.value == pytest.approx(0.625)


def test_files_that_do_not_fit_are_refused(tmp_path, folder):
    plain = synthetic_run(facts=MEASURED)
    shift = {"name": "shifted", "key": "k", "shift": "s"}
    shifted = synthetic_run(options={"variant": "shifted"}, facts={"variant": shift, **MEASURED})
    foreign = tmp_path / "foreign.json"
    foreign.write_text(dump(file_of("core16/acrobot", splits="elsewhere")))
    for run, reason in ((plain, "splits"), (shifted, "each key"), (synthetic_run(task="core16/ant"), "core16/ant")):
        with pytest.raises(UserError, match=rf"foreign.json fit none of the runs: .*{reason}"):
            anchor_files([foreign], [run])
    foreign.write_text(dump(file_of("core16/acrobot")))
    assert anchor_files([foreign], [plain, shifted])[0].tasks.keys() == {"core16/acrobot"}
    changed = synthetic_run(facts={**MEASURED, "sources": {"envs.py": "sha256:1"}})
    with pytest.raises(UserError, match=r"fit none of the runs: .*sources"):
        anchor_files([foreign], [changed])
    foreign.write_text(dump(file_of("core16/acrobot")).replace("[0.0,2.0]", "[0.0]"))
    with pytest.raises(UserError, match=r"foreign.json is not a file of anchors.*2 returns within bounds"):
        anchor_files([foreign], [plain])
    bare = json.loads(dump(file_of("core16/acrobot")))
    bare["tasks"]["core16/acrobot"]["fingerprint"] = {}
    foreign.write_text(json.dumps(bare))
    with pytest.raises(UserError, match=r"measured under: env, failure_return, horizon, splits, task"):
        anchor_files([foreign], [plain])
    folder.mkdir()
    own_anchors_path("x", {}).write_text(dump(file_of("x")))
    assert [list(file.tasks) for file in own_anchors()] == [["x"]]
    (folder / "broken.json").write_text("{}")
    with pytest.raises(UserError, match=r"broken.json is not a file of anchors"):
        anchor_files((), [plain])


@pytest.mark.parametrize("value", ["1e308", "-1e61"])
def test_returns_beyond_bounds_are_refused(tmp_path, value):
    """The sum of 1e308 and 1e308 is no number."""
    foreign = tmp_path / "foreign.json"
    foreign.write_text(dump(file_of("core16/acrobot")).replace("[0.0,2.0]", f"[{value},{value}]"))
    with pytest.raises(UserError, match="returns within bounds"):
        anchor_files([foreign], [synthetic_run(facts=MEASURED)])
    foreign.write_text(dump(file_of("core16/acrobot")).replace("[0.0,2.0]", "[1e59,1e59]"))
    assert anchor_files([foreign], [synthetic_run(facts=MEASURED)]), "control"


def test_a_file_of_a_stranger_is_read_with_bounds(tmp_path):
    """Neither a pipe, which would never end, nor a file of a terabyte, nor a name of a million letters in a message."""
    foreign = tmp_path / "foreign.json"
    os.mkfifo(foreign)
    with pytest.raises(UserError, match="not a plain file"):
        anchor_files([foreign], [])
    foreign.unlink()
    foreign.touch()
    os.truncate(foreign, 1 << 40)
    with pytest.raises(UserError, match="larger than"):
        anchor_files([foreign], [])
    for facts in ({"env": "x" * 1_000_000}, {"y" * 1_000_000: 1}):
        anchors = file_of("core16/acrobot").tasks["core16/acrobot"]
        changed = anchors.model_copy(update={"fingerprint": anchors.fingerprint | facts})
        foreign.write_text(dump(file_of("core16/acrobot").model_copy(update={"tasks": {"core16/acrobot": changed}})))
        with pytest.raises(UserError, match="fit none of the runs") as refused:
            anchor_files([foreign], [synthetic_run(facts=MEASURED)])
        assert len(str(refused.value)) < 2_000
    foreign.write_text(dump(file_of("z" * 1_000_000)))
    with pytest.raises(UserError, match="fit none of the runs: it has zzz") as refused:
        anchor_files([foreign], [synthetic_run(facts=MEASURED)])
    assert len(str(refused.value)) < 2_000


def test_measuring_is_refused_before_anything_is_played(tmp_path):
    with pytest.raises(UserError, match="returns of the plain one"):
        measure_anchors(REACHER, variant="disguised")
    with pytest.raises(UserError, match=r"no policy.py in"):
        measure_anchors(REACHER, seeds="paper", expert=tmp_path)
    with pytest.raises(UserError, match="has no shifted variant"):
        measure_anchors("CartPole-v1", variant="shifted")
    other = tmp_path / "other.json"
    other.write_text(dump(stored_anchors()))
    create_key(tmp_path / "seal.key")
    with pytest.raises(UserError, match="has anchors of other cases"):
        measure_anchors(REACHER, seal_key=tmp_path / "seal.key", output=other)
