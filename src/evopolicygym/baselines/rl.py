"""PPO, SAC and DQN of Stable-Baselines3, on our environments. Needs the extra `rl`: torch is imported here alone.

The state of a training is saved in the format of Stable-Baselines3, which is unpickled when it continues: continue only
trainings of your own."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.agents.builtin.learners.networks import NetworkShape
from evopolicygym.agents.builtin.policies.actor import FARTHEST, Actor, Vector
from evopolicygym.baselines.environments import EnvironmentPool, fastest_processes
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.errors import UserError
from evopolicygym.files import write_json
from evopolicygym.tasks.splits import Splits
from evopolicygym.tasks.task import Task

ALGORITHMS: Final = ("ppo", "sac", "dqn")
PACKAGES: Final = ("torch", "stable_baselines3")
INSTALL: Final = (
    "In a clone of EvoPolicyGym: pip install '.[rl]'. For a CPU build of torch, install it first: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu"
)
ENVIRONMENTS: Final = {"ppo": 8, "sac": 4, "dqn": 4}
SAVE_EVERY_S: Final = 120.0
BUFFER: Final = 300_000
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4},
    "sac": {"buffer_size": BUFFER, "learning_starts": 1000, "train_freq": 1, "gradient_steps": -1, "batch_size": 256},
    "dqn": {"buffer_size": BUFFER, "learning_starts": 1000, "train_freq": 4, "gradient_steps": -1, "batch_size": 64},
}


def check_installed(algorithm: str) -> None:
    """Raise UserError if the packages of the extra are missing."""
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise UserError(f"{algorithm} needs {' and '.join(missing)}, not installed here", INSTALL)


class RlTrainer:
    """Trains with Stable-Baselines3. Its state is in ``folder``, and is taken up if there is one."""

    def __init__(self, name: str, task: Task, splits: Splits, seed: int, jobs: int, folder: Path) -> None:
        import stable_baselines3 as sb3
        import torch
        from stable_baselines3.common.vec_env import VecNormalize

        torch.set_num_threads(1)  # networks are small, and sums must not depend on the number of threads
        spaces = spaces_of(task)
        is_choice = spaces.is_choice
        if not is_choice and spaces.action["type"] != "Box":
            raise UserError(f"{name} plays Box and Discrete actions; {task.id} has {spaces.action['type']}")
        _check_actions(name, task, is_choice)
        self._name, self._folder, self._is_choice = name, folder, is_choice
        shape = NetworkShape.of(spaces, ())
        meta = json.loads((folder / "rl.json").read_text()) if (folder / "rl.json").exists() else None
        begun = meta["steps"] if meta else 0
        processes = fastest_processes(task, splits, ENVIRONMENTS[name], jobs)
        pool = EnvironmentPool(task, splits, (seed, begun), ENVIRONMENTS[name], processes)
        self._envs = make_vec_env(pool, shape, is_choice)
        self._envs.episodes = meta["episodes"] if meta else 0
        algorithm = {"ppo": sb3.PPO, "sac": sb3.SAC, "dqn": sb3.DQN}[name]
        if meta:
            self._normal = VecNormalize.load(str(folder / "normalise.pkl"), self._envs)
            self._model = algorithm.load(folder / "model.zip", env=self._normal, device="cpu")
            self._model.set_random_seed(seed + begun)
            if name != "ppo":
                self._model.load_replay_buffer(folder / "replay.pkl")
        else:
            self._normal = VecNormalize(self._envs, clip_obs=FARTHEST, norm_reward=name == "ppo")
            self._model = algorithm("MlpPolicy", self._normal, seed=seed, device="cpu", **OPTIONS[name])
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

    def train(self, until_steps: int, tell: Callable[[], object]) -> None:
        def after_step(*_: object) -> bool:
            tell()
            if time.monotonic() - self._saved > SAVE_EVERY_S:
                self.save()
            return True

        if self.steps < until_steps:
            self._model.learn(until_steps - self.steps, after_step, reset_num_timesteps=False)

    def save(self) -> None:
        self._model.save(self._folder / "model.zip")
        self._normal.save(str(self._folder / "normalise.pkl"))
        if self._name != "ppo":
            self._model.save_replay_buffer(self._folder / "replay.pkl")
        write_json(self._folder / "rl.json", {"steps": self.steps, "episodes": self.episodes})
        self._saved = time.monotonic()

    def close(self) -> None:
        self._envs.close()


def _check_actions(name: str, task: Task, is_choice: bool) -> None:
    if name == "sac" and is_choice:
        raise UserError(f"sac needs continuous actions, and those of {task.id} are a choice", "Use --algo dqn.")
    if name == "dqn" and not is_choice:
        raise UserError(f"dqn needs a choice of actions, and those of {task.id} are continuous", "Use --algo sac.")


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
