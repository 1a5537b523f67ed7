"""Makes a task of any Gymnasium id: facts from the live environment, and text generated from them."""

from __future__ import annotations

import importlib
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from evopolicygym.errors import UserError
from evopolicygym.tasks import simulator
from evopolicygym.tasks.simulator import prints_to_stderr
from evopolicygym.tasks.spaces import describe
from evopolicygym.tasks.task import FailureReturn, Task

DEFAULT_HORIZON: Final = 1000
UNKNOWN_FAILURE: Final = FailureReturn(
    -1e6,
    "The rewards of this environment are not known, so this is a number below any plausible return. A task file can "
    "declare a tighter one (`evopolicygym docs tasks`).",
)
REGISTERING: Final = ("minigrid", "highway_env", "gymnasium_robotics")
NAMESPACES: Final = {"ALE": ("ale_py",)}
MODULES: Final = {
    "gymnasium.envs.box2d": ("Box2D", "pygame"),
    "gymnasium.envs.mujoco": ("mujoco",),
    "gymnasium_robotics": ("mujoco",),
}


def from_gymnasium(env_id: str) -> Task:
    """Return the task of a Gymnasium id. Makes the environment once, to read its spaces and horizon.

    Raises LookupError if no such environment is registered."""
    with prints_to_stderr():
        return _read_environment(env_id)


def unread_task(name: str) -> Task:
    """Return a task that has the id of ``name`` (a task file, or MODULE:ID) and nothing else that is true of it: no
    module is imported, and no file is read."""
    return _facts(Path(name).stem if name.endswith(".toml") else name, DEFAULT_HORIZON, "", "", ())


def _read_environment(env_id: str) -> Task:
    task = _facts(env_id, DEFAULT_HORIZON, "", "", NAMESPACES.get(env_id.partition("/")[0], ()))
    try:
        env = _make(task)
    except LookupError:
        _register_known()
        env = _make(task)
    try:
        observation, action = (describe(schema) for schema in simulator.schemas(task, env))
        return _facts(env_id, _horizon(env), observation, action, _requires(env))
    finally:
        env.close()


def _register_known() -> None:
    """Import packages that register environments only on import. Missing or broken packages are skipped."""
    for module in REGISTERING:
        with suppress(Exception):
            importlib.import_module(module)


def _facts(env_id: str, horizon: int, observation: str, action: str, requires: tuple[str, ...]) -> Task:
    return Task(
        id=env_id,
        env_id=env_id,
        title=f"{env_id} (a Gymnasium environment without a written contract)",
        family="gymnasium",
        horizon=horizon,
        observation_space=observation,
        action_space=action,
        objective="Maximise the sum of rewards of an episode.",
        reward="The environment's own reward, unchanged.",
        termination=f"When the environment says so; truncated after {horizon} steps.",
        failure_return=UNKNOWN_FAILURE,
        requires=requires,
    )


def _horizon(env: Any) -> int:
    """Return the horizon that is registered or, if there is none, the environment's ``max_steps`` if it is a number."""
    declared = (env.spec.max_episode_steps if env.spec else None, getattr(env.unwrapped, "max_steps", None))
    whole = [int(steps) for steps in declared if isinstance(steps, int | np.integer) and steps is not True]
    return next((steps for steps in whole if steps > 0), DEFAULT_HORIZON)


def _requires(env: Any) -> tuple[str, ...]:
    """Return the modules whose versions can change a score: the environment's own, and the simulators that it is
    derived from or holds."""
    modules = [kind.__module__ for kind in type(env.unwrapped).__mro__]
    own = modules[0].partition(".")[0]
    simulators = [names for prefix, names in MODULES.items() if any(module.startswith(prefix) for module in modules)]
    held = {type(value).__module__.partition(".")[0] for value in getattr(env.unwrapped, "__dict__", {}).values()}
    names = [*([] if own == "gymnasium" else [own]), *chain(*simulators), *(["mujoco"] if "mujoco" in held else [])]
    return tuple(dict.fromkeys(names))


def _make(task: Task) -> Any:
    """Make the environment. Raises LookupError if it is not registered; its own errors pass through."""
    import gymnasium

    try:
        return simulator.make(task)
    except UserError as error:
        cause = error.__cause__
        if isinstance(cause, gymnasium.error.UnregisteredEnv) or type(cause) is gymnasium.error.Error:
            raise LookupError(str(cause)) from error
        raise
