"""Learning curves: measured like any policy, the same after a kill, and what a score costs by them."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

from evopolicygym.analysis.exchange_rate import exchange_rate
from evopolicygym.api.baseline import baseline_curve
from evopolicygym.api.evaluate import evaluate
from evopolicygym.baselines.curve import point_steps
from evopolicygym.errors import UserError
from evopolicygym.reference.curves import MeasuredPoint, load_curve, load_curves
from server_helpers import command

TASK = "learnable_toys:Sorting-v0"
FEW = {"validation_cases": 2, "heldout_cases": 3, "jobs": 1}


def facts(record):
    """Everything of a record but how long it took."""
    return record.model_copy(update={"points": [point.model_copy(update={"train_s": 0.0}) for point in record.points]})


def test_points_are_spread_over_the_logarithm_of_the_steps():
    assert point_steps(4000) == [1000, 1414, 2000, 2828, 4000]
    assert point_steps(10) == [10] and point_steps(1001) == [1001]


def test_a_curve_rises_and_is_measured_like_any_policy(tmp_path):
    def train(steps):
        return baseline_curve("learnable_toys:Tracking-v0", "cma-es", steps=steps, folder=tmp_path, **FEW)

    record = train(6000)
    assert record.complete and record.points[-1].episodes == record.points[-1].steps / 10
    assert record.score is not None and record.score > record.points[0].heldout_mean + 1.0
    (file,) = tmp_path.glob("*.curve.json")
    assert train(6000) == record == load_curve(file)  # nothing is trained twice
    longer = train(8000)
    assert longer.points[: len(record.points)] == record.points and longer.points[-1].steps >= 8000
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 7'))
    with pytest.raises(UserError, match="another training"):
        train(8000)


def test_a_record_names_the_command_that_repeats_it(tmp_path):
    def repeat(seeds):
        options = {"steps": 200, "seeds": seeds, "hidden": 2, "folder": tmp_path / seeds, **FEW}
        return baseline_curve(TASK, "ga", **options).command

    begin = f"evopolicygym baseline curve {TASK} --algo ga --steps 200 --first-seed 0 --seeds 1 --hidden 2"
    assert repeat("paper") == f"{begin} --validation-cases 2 --heldout-cases 3"
    assert repeat("sealed") == f"{begin} --cases sealed --validation-cases 2 --heldout-cases 3"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": 4}, "with 0 hidden units, not 4"),
        ({"validation_cases": 3}, "with 2 validation cases, not 3"),
        ({"heldout_cases": 2}, "with 3 held-out cases, not 2"),
    ],
)
def test_a_training_with_other_settings_is_not_continued(tmp_path, options, words):
    """It would be measured on two sets of cases, or return the record of another network as its own."""
    baseline_curve(TASK, "ga", steps=200, folder=tmp_path, **FEW)
    with pytest.raises(UserError, match=words):
        baseline_curve(TASK, "ga", steps=400, folder=tmp_path, **{**FEW, **options})


def test_a_killed_training_continues_to_the_same_curve(tmp_path):
    options = ["--algo", "ars", "--steps", "20000", "--jobs", "1", "--validation-cases", "1", "--heldout-cases", "2"]
    calm = command("baseline", "curve", TASK, "--json", "--folder", tmp_path / "calm", *options)
    assert calm.returncode == 0, calm.stderr
    hunted = [sys.executable, "-m", "evopolicygym", "baseline", "curve", TASK, "--folder", str(tmp_path / "hunted")]
    process = subprocess.Popen([*hunted, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list((tmp_path / "hunted").glob("*.curve.json"))) == 0:
        time.sleep(0.02)
    process.kill()
    process.wait()
    (interrupted,) = load_curves([tmp_path / "hunted"])
    assert not interrupted.complete
    assert subprocess.run([*hunted, *options], capture_output=True).returncode == 0
    (first,), (second,) = load_curves([tmp_path / "calm"]), load_curves([tmp_path / "hunted"])
    assert facts(first) == facts(second) and json.loads(calm.stdout)[0]["points"]


def test_a_wrong_algorithm_is_named():
    with pytest.raises(UserError, match="'magic'"):
        baseline_curve(TASK, "magic")


def point(steps, validation, heldout):
    return MeasuredPoint(
        episodes=steps // 10, steps=steps, train_s=1.0, checkpoint="0" * 64, validation_mean=validation,
        heldout_mean=heldout,
    )  # fmt: skip


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """Three trainings: the second one is slower, the third never arrives."""
    record = baseline_curve(TASK, "ga", steps=200, folder=tmp_path_factory.mktemp("curves"), **FEW)
    points = (
        [point(100, 1, 1), point(200, 5, 6), point(400, 4, 9)],
        [point(100, 1, 1), point(200, 2, 3), point(400, 7, 6)],
        [point(100, 1, 1), point(200, 2, 3), point(400, 3, 4)],
    )
    return [record.model_copy(update={"seed": seed, "points": found}) for seed, found in enumerate(points)]


def test_an_exchange_rate_is_the_median_over_seeds_of_what_validation_selected(curves):
    rate = exchange_rate(curves, 6.0)
    assert (rate.episodes, rate.steps, rate.reached, rate.seeds) == (40, 400, 2, 3)
    assert str(rate) == "ga: 40 episodes, 400 steps"
    never = exchange_rate(curves, 9.0)  # a held-out mean of 9 was not selected by validation
    assert (never.steps, never.reached) == (None, 0)
    assert str(never) == "ga: not reached within 400 steps (0 of 3)"
    assert exchange_rate(curves, 3.0).steps == 200


def test_a_point_repeats_as_an_evaluation_of_its_policy(tmp_path, curves):
    """The record names the checkpoint; the same weights, written as a policy, have the same score and hash."""
    from evopolicygym.agents.builtin.learners.networks import write_actor
    from evopolicygym.baselines.trainer import SearchTrainer
    from evopolicygym.tasks.registry import find_task
    from evopolicygym.tasks.splits import PaperSplits

    record = baseline_curve(TASK, "ga", steps=200, folder=tmp_path / "curve", **FEW)
    trainer = SearchTrainer("ga", find_task(TASK), PaperSplits(), 0, 1, tmp_path)
    trainer.train(200, lambda: None)
    write_actor(trainer.actor, tmp_path / "policy")
    result = evaluate(tmp_path / "policy", TASK, split="heldout", seeds="paper", cases="0-2", jobs=1)
    assert (result.mean, result.checkpoint.hash) == (record.points[-1].heldout_mean, record.points[-1].checkpoint)


def npz(**arrays: np.ndarray) -> bytes:
    np.savez_compressed(file := io.BytesIO(), **arrays)
    return file.getvalue()


STATE = {"numbers": np.array([1, 1, 32, 320, 0]), "total": np.zeros(2), "squares": np.zeros(2)}
UNREADABLE = {
    "no archive": b"not an archive",
    "a pickle": pickle.dumps({"numbers": 1}),
    "objects": npz(**STATE | {"told": np.array([{}], dtype=object)}),
    "no results": npz(**STATE),
    "a bomb": npz(**STATE | {"told": np.zeros((300 << 20) // 8)}),
    "other observations": npz(**STATE | {"total": np.zeros(77), "told": np.zeros((0, 32))}),
    "other numbers": npz(**STATE | {"numbers": np.zeros(3), "told": np.zeros((0, 32))}),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_state_of_a_stranger_is_named_and_not_continued(tmp_path, kind):
    options = {"steps": 1000, "folder": tmp_path, **FEW}
    assert baseline_curve(TASK, "ars", **options).complete  # control: writes the state that is replaced here
    (file,), (record,) = tmp_path.glob("*.state/search.npz"), tmp_path.glob("*.curve.json")
    record.unlink()
    file.write_bytes(UNREADABLE[kind])
    with pytest.raises(UserError, match=r"search\.npz is not the state of this training"):
        baseline_curve(TASK, "ars", **options)


def test_no_state_is_written_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "learnable_toys-Sorting-v0__ars__s0.curve.state").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match="is a link, which is not followed"):
        baseline_curve(TASK, "ars", steps=1000, folder=tmp_path, **FEW)
    assert not list((tmp_path / "outside").iterdir())
