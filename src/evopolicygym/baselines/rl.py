"""PPO, SAC and DQN of Stable-Baselines3, on our environments. Needs the extra `rl`: torch is imported here alone.

The state of a training is saved in the format of Stable-Baselines3, which is unpickled when it continues, and a pickle
can run any program. It is therefore saved with a signature of this installation, and no other state is opened."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.agents.builtin.learners.networks import NetworkShape
from evopolicygym.agents.builtin.policies.actor import FARTHEST, Actor, Vector
from evopolicygym.baselines.environments import EnvironmentPool, fastest_processes
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.errors import UserError
from evopolicygym.files import open_file, read_file, write_json
from evopolicygym.tasks.splits import Splits
from evopolicygym.tasks.task import Task

ALGORITHMS: Final = ("ppo", "sac", "dqn")
PACKAGES: Final = ("torch", "stable_baselines3")
INSTALL: Final = (
    "In a clone of EvoPolicyGym: pip install '.[rl]'. For a CPU build of torch, install it first: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu"
)
ENVIRONMENTS: Final = {"ppo": 8, "sac": 4, "dqn": 4}
SAVE_EVERY_S: Final = 30.0
MODEL, NORMALISATION, REPLAY = "model.zip", "normalise.pkl", "replay.npz"
FACTS: Final = "rl.json"
MAX_STATE_BYTES: Final = 64 << 30  # of each file; a replay buffer of images is large
SAVED: Final = re.compile(r"steps-[0-9]{1,18}")
Sign = Callable[[str], str]  # returns the signature of this installation over a text, empty if it has no key
BUFFER: Final = 300_000
TRANSITIONS: Final = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
FUSED: Final = {"optimizer_kwargs": {"fused": True}}  # Adam in one call for all weights: a tenth of a step of SAC
OFF_POLICY: Final = {"buffer_size": BUFFER, "learning_starts": 1000, "gradient_steps": -1, "policy_kwargs": FUSED}
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4},
    "sac": {**OFF_POLICY, "train_freq": 1, "batch_size": 256},
    "dqn": {**OFF_POLICY, "train_freq": 4, "batch_size": 64},
}


def check_installed(algorithm: str) -> None:
    """Raise UserError if the packages of the extra are missing."""
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise UserError(f"{algorithm} needs {' and '.join(missing)}, not installed here", INSTALL)


class RlTrainer:
    """Trains with Stable-Baselines3. Its state is in ``folder``, and is taken up if there is one."""

    def __init__(self, name: str, task: Task, splits: Splits, seed: int, jobs: int, folder: Path, sign: Sign) -> None:
        import stable_baselines3 as sb3
        import torch
        from stable_baselines3.common.vec_env import VecNormalize

        torch.set_num_threads(1)  # networks are small, and sums must not depend on the number of threads
        spaces = spaces_of(task)
        is_choice = spaces.is_choice
        if not is_choice and spaces.action["type"] != "Box":
            raise UserError(f"{name} plays Box and Discrete actions; {task.id} has {spaces.action['type']}")
        _check_actions(name, task, is_choice)
        self._name, self._folder, self._is_choice, self._sign = name, folder, is_choice, sign
        shape = NetworkShape.of(spaces, ())
        saved = last_saved(folder)
        meta = read_facts(saved, sign) if saved else {"steps": 0, "episodes": 0}
        begun = meta["steps"]
        processes = fastest_processes(task, splits, ENVIRONMENTS[name], jobs)
        pool = EnvironmentPool(task, splits, (seed, begun), ENVIRONMENTS[name], processes)
        self._envs = make_vec_env(pool, shape, is_choice)
        self._envs.episodes = meta["episodes"]
        algorithm = {"ppo": sb3.PPO, "sac": sb3.SAC, "dqn": sb3.DQN}[name]
        if saved:
            self._normal = VecNormalize.load(str(saved / NORMALISATION), self._envs)
            self._model = algorithm.load(saved / MODEL, env=self._normal, device="cpu")
            self._model.set_random_seed(seed + begun)
            if name != "ppo":
                load_transitions(self._model.replay_buffer, saved / REPLAY)
        else:
            self._normal = VecNormalize(self._envs, clip_obs=FARTHEST, norm_reward=name == "ppo")
            options = deepcopy(OPTIONS[name])  # Stable-Baselines3 writes into policy_kwargs
            self._model = algorithm("MlpPolicy", self._normal, seed=seed, device="cpu", **options)
        self._saved = time.monotonic()
        self.settings: dict[str, Any] = {**OPTIONS[name], "environments": ENVIRONMENTS[name]}
        self.versions = {"numpy": np.__version__, "torch": torch.__version__, "stable-baselines3": sb3.__version__}

    @property
    def episodes(self) -> int:
        return int(self._envs.episodes)

    @property
    def steps(self) -> int:
        return int(self._model.num_timesteps)

    @property
    def actor(self) -> Actor:
        """The current policy in numpy: the mean action of PPO and SAC, a draw of PPO's choice, the best of DQN."""
        statistics = self._normal.obs_rms
        scale = np.sqrt(np.asarray(statistics.var) + self._normal.epsilon)
        arrays: dict[str, Any] = {"mean": np.asarray(statistics.mean), "scale": scale}
        policy = self._model.policy
        layers: list[Any]
        if self._name == "ppo":
            layers = [*policy.mlp_extractor.policy_net, policy.action_net]
            arrays["samples"] = self._is_choice
        elif self._name == "sac":
            layers = [*policy.actor.latent_pi, policy.actor.mu]
            arrays |= {"squashes": True, "relu": True}
        else:
            layers = list(policy.q_net.q_net)
            arrays["relu"] = True
        for number, layer in enumerate(layer for layer in layers if hasattr(layer, "weight")):
            arrays[f"w{number}"] = layer.weight.detach().numpy().astype(float).T
            arrays[f"b{number}"] = layer.bias.detach().numpy().astype(float)
        return Actor(arrays)

    def train(self, until_steps: int, report: Callable[[], object]) -> None:
        def after_step(*_: object) -> bool:
            report()
            if time.monotonic() - self._saved > SAVE_EVERY_S:
                self.save()
            return True

        if self.steps < until_steps:
            self._model.learn(until_steps - self.steps, after_step, reset_num_timesteps=False)

    def save(self) -> None:
        """Write a new folder and delete older ones, so that a kill at any time leaves a complete one."""
        target = self._folder / f"steps-{self.steps}"
        target.mkdir(exist_ok=True)
        self._model.save(target / MODEL)
        self._normal.save(str(target / NORMALISATION))
        if self._name != "ppo":
            save_transitions(self._model.replay_buffer, target / REPLAY)
        write_facts(target, self.steps, self.episodes, self._sign)
        for other in self._folder.glob("steps-*"):
            if other != target:
                shutil.rmtree(other)
        self._saved = time.monotonic()

    def close(self) -> None:
        self._envs.close()


def last_saved(folder: Path) -> Path | None:
    """Return the folder with the last complete state of a training. Its JSON file is written last."""
    complete = [path.parent for path in folder.glob(f"steps-*/{FACTS}") if SAVED.fullmatch(path.parent.name)]
    return max(complete, key=lambda path: int(path.name.removeprefix("steps-")), default=None)


def write_facts(saved: Path, steps: int, episodes: int, sign: Sign) -> None:
    """Write the last file of a saved state: how far the training is, and the signature over all of it."""
    facts = {"steps": steps, "episodes": episodes}
    write_json(saved / FACTS, facts | {"signature": sign(_digest(saved, facts))})


def read_facts(saved: Path, sign: Sign) -> dict[str, Any]:
    """Return how far a saved training is. Raises UserError unless this installation saved all of its files."""
    try:
        facts = json.loads(read_file(saved.parent, f"{saved.name}/{FACTS}", 1 << 20))
        counts = {"steps": int(facts["steps"]), "episodes": int(facts["episodes"])}
        own, signature = sign(_digest(saved, counts)), str(facts["signature"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError, OverflowError):  # int(Infinity)
        counts, own, signature = {}, "", ""
    if not own or not hmac.compare_digest(own.encode(), signature.encode(errors="replace")):
        raise UserError(
            f"the state of a training in {saved} was not saved by this installation: it holds pickled objects, which "
            "could run any program, and was not opened",
            f"Delete {saved.parent}, and the training starts from the beginning.",
        )
    return counts


def _digest(saved: Path, facts: dict[str, int]) -> str:
    """Return a hash of everything that is read when a training continues."""
    whole = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in (MODEL, NORMALISATION, REPLAY):
        if name != REPLAY or os.path.lexists(saved / name):
            with open_file(saved.parent, f"{saved.name}/{name}", MAX_STATE_BYTES) as file:
                whole.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def save_transitions(buffer: Any, file: Path) -> None:
    """Write the part of a replay buffer that is in use: at first it is a small part of a large memory."""
    count = buffer.buffer_size if buffer.full else buffer.pos
    arrays = {name: getattr(buffer, name)[:count] for name in TRANSITIONS}
    np.savez(file, allow_pickle=False, position=buffer.pos, full=buffer.full, **arrays)


def load_transitions(buffer: Any, file: Path) -> None:
    """Fill a new replay buffer with what `save_transitions` wrote."""
    with np.load(file, allow_pickle=False) as saved:
        buffer.pos, buffer.full = int(saved["position"]), bool(saved["full"])
        for name in TRANSITIONS:
            array = saved[name]
            getattr(buffer, name)[: len(array)] = array


def _check_actions(name: str, task: Task, is_choice: bool) -> None:
    if name == "sac" and is_choice:
        raise UserError(f"sac needs continuous actions; those of {task.id} are discrete", "Use dqn.")
    if name == "dqn" and not is_choice:
        raise UserError(f"dqn needs discrete actions; those of {task.id} are continuous", "Use sac.")


def make_vec_env(pool: EnvironmentPool, shape: NetworkShape, is_choice: bool) -> Any:
    """Return the pool as an environment of Stable-Baselines3: a function, since its class can be made only where that
    is installed."""
    from stable_baselines3.common.vec_env import VecEnv

    class PoolVecEnv(VecEnv):  # type: ignore[misc]
        """Features as observations; controls from -1 to 1, or a choice, as actions."""

        episodes = 0

        def __init__(self) -> None:
            observation = gymnasium.spaces.Box(-np.inf, np.inf, (shape.inputs,), np.float32)
            action: Any = gymnasium.spaces.Box(-1.0, 1.0, (shape.outputs,), np.float32)
            super().__init__(pool.count, observation, gymnasium.spaces.Discrete(shape.outputs) if is_choice else action)
            self._controls: Vector = np.zeros((pool.count, shape.outputs))
            self._choices = np.eye(shape.outputs)

        def reset(self) -> Any:
            return pool.reset().astype(np.float32)

        def step_async(self, actions: Any) -> None:
            self._controls = self._choices[actions] if is_choice else np.asarray(actions, dtype=float)

        def step_wait(self) -> Any:
            now, rewards, terminated, truncated, last = pool.step(self._controls)
            dones = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(pool.count)]
            (ended,) = dones.nonzero()
            for number in ended:
                is_cut = bool(truncated[number])
                infos[number] = {"terminal_observation": last[number].astype(np.float32), "TimeLimit.truncated": is_cut}
            self.episodes += len(ended)
            return now.astype(np.float32), rewards.astype(np.float32), dones, infos

        def close(self) -> None:
            pool.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * pool.count

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise NotImplementedError

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * pool.count

    return PoolVecEnv()
