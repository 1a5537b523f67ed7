"""From a task to an environment. Only judge processes call this; policies never see what it imports."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any, Final

from evopolicygym.errors import UserError
from evopolicygym.tasks.pins import BEHIND, pins
from evopolicygym.tasks.spaces import Schema, schema_of, with_names
from evopolicygym.tasks.task import Task

# Headless drawing for every simulator; set before the first of them is imported.
HEADLESS: Final = {"SDL_VIDEODRIVER": "offscreen", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


def make(task: Task, video: bool = False) -> Any:
    """A fresh environment as the registry makes it. Always a new object: not every environment forgets on reset."""
    _import_requirements(task)
    import gymnasium

    options = {"render_mode": "rgb_array"} if video else {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*The environment roundabout-v0 is out of date.*")
        return gymnasium.make(task.env_id, disable_env_checker=True, **options, **task.env_options)


def reset(env: Any, seed: int) -> Any:
    """The paper's seeding; returns the first observation."""
    observation, _ = env.reset(seed=seed)
    env.action_space.seed(seed + 1)
    env.observation_space.seed(seed + 2)
    return observation


def schemas(task: Task, env: Any) -> tuple[Schema, Schema]:
    """Observation and action space, with the names that the task gives to their entries."""
    observation = with_names(schema_of(env.observation_space), task.observation)
    action = schema_of(env.action_space)
    return observation, with_names(action, task.action) if action["type"] == "Box" else action


def _import_requirements(task: Task) -> None:
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    if ":" in task.env_id and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in task.requires:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UserError(f"task {task.id} needs {module}, which does not import: {error}", _remedy(module)) from error


def _remedy(module: str) -> str:
    names = BEHIND.get(module, (module,))
    return "pip install " + " ".join(f"{name}=={pins()[name]}" if name in pins() else name for name in names)
