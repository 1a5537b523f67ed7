"""PPO, SAC and DQN of Stable-Baselines3: they learn, act in numpy as in torch, and continue after a kill.

Tests that need torch run in `make prove`, in an environment of their own; in CI the message about its absence does."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.api.baseline import baseline_curve
from evopolicygym.baselines import environments, rl
from evopolicygym.baselines.environments import EnvironmentPool, TrainingEnvironment, fastest_processes
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.errors import UserError
from evopolicygym.runs.trust import sign as sign_run
from evopolicygym.runs.trust import sign_training
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = [pytest.mark.slow, pytest.mark.skipif(not HAS_TORCH, reason="needs the extra rl: pip install .[rl]")]
SOLVED = [
    ("Tracking", "ppo", 10_000),
    ("Tracking", "sac", 4_000),
    ("Sorting", "ppo", 16_000),
    ("Sorting", "dqn", 4_000),
]
FEW = {"validation_cases": 2, "heldout_cases": 8, "jobs": 1}


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
def test_without_torch_the_message_has_the_command_that_installs_it(tmp_path):
    with pytest.raises(UserError, match=r"ppo needs torch and stable_baselines3") as raised:
        baseline_curve("learnable_toys:Sorting-v0", "ppo", folder=tmp_path / "new")
    assert "pip install '.[rl]'" in str(raised.value) and not (tmp_path / "new").exists()


def play(processes: int, count: int = 3, steps: int = 25):
    task = find_task("learnable_toys:Tracking-v0")
    pool = EnvironmentPool(task, PaperSplits(), (5,), count, processes)
    random = np.random.default_rng(0)
    try:
        seen = [pool.reset()]
        ends = 0
        for _ in range(steps):
            now, rewards, terminated, truncated, last = pool.step(random.normal(size=(count, 2)))
            assert np.array_equal(now, last) or (terminated | truncated).any()
            seen += [now, rewards]
            ends += int((terminated | truncated).sum())
        return seen, ends
    finally:
        pool.close()


def test_environments_play_the_same_in_any_number_of_processes():
    (alone, ends), (together, _), (each, _) = play(1), play(2), play(8)
    assert ends == 2 * 3  # episodes of ten steps
    assert all(np.array_equal(first, second) for first, second in zip(alone, together, strict=True))
    assert all(np.array_equal(first, second) for first, second in zip(alone, each, strict=True))


def test_arrays_of_a_step_are_not_those_of_the_next():
    pool = EnvironmentPool(find_task("learnable_toys:Tracking-v0"), PaperSplits(), (5,), 2, 1)
    arrays = [pool.reset(), *pool.step(np.zeros((2, 2)))]
    before = [array.copy() for array in arrays]
    pool.step(np.ones((2, 2)))
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, before, strict=True))
    pool.close()


def test_cheap_environments_stay_in_one_process(monkeypatch):
    task = find_task("learnable_toys:Tracking-v0")
    assert fastest_processes(task, PaperSplits(), count=3, most=8) == 1
    monkeypatch.setattr(environments, "measure_step", lambda *_: 0.01)
    assert fastest_processes(task, PaperSplits(), count=3, most=8) == 3
    assert fastest_processes(task, PaperSplits(), count=8, most=2) == 2
    assert fastest_processes(task, PaperSplits(), count=8, most=1) == 1


def test_the_horizon_cuts_an_episode_short():
    task = replace(find_task("learnable_toys:Tracking-v0"), horizon=4)
    environment = TrainingEnvironment(task, PaperSplits(), spaces_of(task), (1,))
    features = np.zeros(3)
    environment.reset(features)
    assert [environment.step(np.zeros(2, np.float32), features)[1:] for _ in range(4)][-1] == (False, True)


def trained(toy: str, algorithm: str, steps: int, folder, **options):
    return baseline_curve(f"learnable_toys:{toy}-v0", algorithm, steps=steps, folder=folder, **FEW, **options)


class TestWithTorch:
    pytestmark = needs_torch

    @pytest.mark.parametrize(("toy", "algorithm", "steps"), SOLVED)
    def test_it_learns(self, tmp_path, toy, algorithm, steps):
        record = trained(toy, algorithm, steps, tmp_path)
        assert record.complete and record.score is not None and record.score > 5.5, record.points

    def test_it_does_not_learn_from_shuffled_rewards(self, tmp_path, monkeypatch):
        honest = TrainingEnvironment.step
        random = np.random.default_rng(0)
        earlier = [0.0]

        def shuffled(self, action, features):
            reward, terminated, truncated = honest(self, action, features)
            earlier.append(reward)
            return earlier[random.integers(len(earlier))], terminated, truncated

        monkeypatch.setattr(TrainingEnvironment, "step", shuffled)
        record = trained("Sorting", "dqn", 4_000, tmp_path)
        assert record.score is not None and record.score < 6.0

    @pytest.mark.parametrize(("toy", "algorithm"), [("Tracking", "ppo"), ("Tracking", "sac"), ("Sorting", "dqn")])
    def test_numpy_acts_as_torch(self, tmp_path, toy, algorithm):
        from evopolicygym.baselines.rl import RlTrainer

        task = find_task(f"learnable_toys:{toy}-v0")
        trainer = RlTrainer(algorithm, task, PaperSplits(), 0, 1, tmp_path, sign)
        trainer.train(1500, lambda: None)
        actor, rows = trainer.actor, np.random.default_rng(0).normal(size=(20, 3))
        wanted, _ = trainer._model.predict(trainer._normal.normalize_obs(rows.astype(np.float32)), deterministic=True)
        controls = np.array([actor.controls(row) for row in rows])
        acted = controls.argmax(axis=1) if toy == "Sorting" else np.clip(controls, -1.0, 1.0)
        assert np.allclose(acted, wanted, atol=1e-4)
        trainer.close()

    @pytest.mark.parametrize(("toy", "algorithm"), [("Tracking", "ppo"), ("Sorting", "dqn")])
    def test_same_seed_same_curve_and_a_training_continues(self, tmp_path, toy, algorithm):
        first, again = (trained(toy, algorithm, 3000, tmp_path / name) for name in ("one", "two"))
        assert [point.checkpoint for point in first.points] == [point.checkpoint for point in again.points]
        longer = trained(toy, algorithm, 6000, tmp_path / "one")
        assert longer.points[: len(first.points)] == first.points and longer.points[-1].steps >= 6000
        assert longer.points[-1].episodes > first.points[-1].episodes

    def test_a_kill_while_a_state_is_saved_loses_only_that_one(self, tmp_path, monkeypatch):
        from evopolicygym.baselines import rl

        def trainer():
            return rl.RlTrainer("dqn", find_task("learnable_toys:Sorting-v0"), PaperSplits(), 0, 1, tmp_path, sign)

        first = trainer()
        first.train(1200, lambda: None)
        first.save()
        steps, size = first.steps, first._model.replay_buffer.pos
        first.train(1400, lambda: None)
        monkeypatch.setattr(rl, "write_json", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first.save()
        monkeypatch.undo()
        again = trainer()
        kept = again._model.replay_buffer
        assert again.steps == steps and kept.pos == size and kept.observations[:size].any()
        for name in rl.TRANSITIONS:
            assert np.array_equal(getattr(kept, name)[:size], getattr(first._model.replay_buffer, name)[:size])
        again.train(1500, lambda: None)
        again.save()
        assert [path.name for path in tmp_path.glob("steps-*")] == [f"steps-{again.steps}"]
        first.close()
        again.close()

    def test_a_method_that_does_not_fit_the_actions_is_refused(self, tmp_path):
        with pytest.raises(UserError, match="Use dqn"):
            trained("Sorting", "sac", 100, tmp_path)


def sign(text: str) -> str:
    return hashlib.sha256(f"key|{text}".encode()).hexdigest()


def saved_state(folder: Path) -> Path:
    (saved := folder / "steps-100").mkdir(parents=True)
    for name in ("model.zip", "normalise.pkl", "replay.npz"):
        (saved / name).write_bytes(name.encode())
    rl.write_facts(saved, 100, 7, sign)
    return saved


def change(saved: Path, **facts: object) -> None:
    (saved / "rl.json").write_text(json.dumps(json.loads((saved / "rl.json").read_text()) | facts))


FOREIGN: dict[str, Callable[[Path], object]] = {
    "another normalisation": lambda saved: (saved / "normalise.pkl").write_bytes(b"cos\nsystem\n"),
    "another model": lambda saved: (saved / "model.zip").write_bytes(b""),
    "no replay": lambda saved: (saved / "replay.npz").unlink(),
    "other steps": lambda saved: change(saved, steps=99),
    "infinitely many steps": lambda saved: change(saved, steps=float("inf")),
    "no signature": lambda saved: change(saved, signature=""),
    "as older versions wrote it": lambda saved: (saved / "rl.json").write_text('{"steps": 100, "episodes": 7}'),
    "a number": lambda saved: (saved / "rl.json").write_text("5"),
    "nested": lambda saved: (saved / "rl.json").write_text("[" * 100_000),
    "a link": lambda saved: ((saved / "model.zip").unlink(), (saved / "model.zip").symlink_to(saved / "rl.json")),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_no_state_that_this_installation_did_not_save_is_unpickled(tmp_path, kind):
    saved = saved_state(tmp_path)
    assert rl.read_facts(saved, sign) == {"steps": 100, "episodes": 7}  # control
    with pytest.raises(UserError, match="not saved by this installation"):
        rl.read_facts(saved, lambda _: "")  # no key
    FOREIGN[kind](saved)
    with pytest.raises(UserError, match="not saved by this installation"):
        rl.read_facts(saved, sign)


def test_only_folders_of_a_number_of_steps_are_states(tmp_path):
    saved = saved_state(tmp_path)
    for name in ("steps-", "steps-x", "steps-" + "9" * 200, "steps--1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rl.json").write_text("{}")
    assert rl.last_saved(tmp_path) == saved


def test_the_signature_of_a_training_is_no_signature_of_a_run():
    assert sign_training("x") == sign_training("x") != sign_training("y")
    assert sign_training("x|y") != sign_run("x", "y")
