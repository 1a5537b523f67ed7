"""Any Gymnasium id as a task: facts from the live environment, text generated from them."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any, Final

from evopolicygym.errors import UserError
from evopolicygym.tasks import simulator
from evopolicygym.tasks.spaces import describe
from evopolicygym.tasks.task import FailureReturn, Task

DEFAULT_HORIZON: Final = 1000
UNKNOWN_FAILURE: Final = FailureReturn(
    -1e6,
    "Nothing is known of this environment's rewards, so a number below any plausible return stands in. Write a task "
    "file to declare a tighter one (docs/tasks.md).",
)
REGISTERING: Final = ("minigrid", "highway_env", "gymnasium_robotics")
NAMESPACES: Final = {"ALE": ("ale_py",)}
MODULES: Final = {"gymnasium.envs.box2d": ("Box2D", "pygame"), "gymnasium.envs.mujoco": ("mujoco",)}


def from_gymnasium(env_id: str) -> Task:
    """Makes the environment once to read its spaces and horizon."""
    task = _facts(env_id, DEFAULT_HORIZON, "", "", NAMESPACES.get(env_id.partition("/")[0], ()))
    try:
        env = _make(task)
    except LookupError:
        _register_known()
        env = _make(task)
    try:
        observation, action = (describe(schema) for schema in simulator.schemas(task, env))
        return _facts(env_id, _horizon(env), observation, action, _requires(env))
    except ValueError as error:
        raise UserError(f"{env_id} cannot be a task: {error}") from error
    finally:
        env.close()


def _register_known() -> None:
    """Some packages register their environments only when they are imported."""
    for module in REGISTERING:
        with suppress(ImportError):
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
    declared = env.spec.max_episode_steps if env.spec else None
    return int(declared or getattr(env.unwrapped, "max_steps", None) or DEFAULT_HORIZON)


def _requires(env: Any) -> tuple[str, ...]:
    """The modules whose versions can move a score: of the environment's own package."""
    module = type(env.unwrapped).__module__
    own = next((names for prefix, names in MODULES.items() if module.startswith(prefix)), None)
    return own or () if module.startswith("gymnasium.") else (module.partition(".")[0],)


def _make(task: Task) -> Any:
    """Raises LookupError where there is no such environment, and lets its own troubles through."""
    import gymnasium

    try:
        return simulator.make(task)
    except UserError as error:
        cause = error.__cause__
        if isinstance(cause, gymnasium.error.UnregisteredEnv) or type(cause) is gymnasium.error.Error:
            raise LookupError(str(cause)) from error
        raise
