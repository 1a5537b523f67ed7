"""Makes the environment of a task. Only judge processes call this; policies never see what it imports."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import cache
from typing import Any, Final

from evopolicygym.errors import Fault, UserError, is_permanent
from evopolicygym.fast.catalogue import CATALOGUE, upgrade, why_stock
from evopolicygym.tasks.conditions import TextLevel, Variant
from evopolicygym.tasks.pins import DISTRIBUTIONS_OF_MODULE, pins
from evopolicygym.tasks.spaces import Schema, check_action, schema_of, with_names
from evopolicygym.tasks.task import Task
from evopolicygym.tasks.translation import translation_of

# Headless drawing for every simulator; set before the first of them is imported.
HEADLESS: Final = {"SDL_VIDEODRIVER": "offscreen", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


OPENGL: Final = {"egl": "libEGL.so.1", "osmesa": "libOSMesa.so.8"}
RENDERING_REMEDY: Final = "On Debian and Ubuntu: apt-get install libegl1 libgl1-mesa-dri"
NUMPY_SEEDS: Final = 2**32  # the limit of np.random.seed; sealed seeds have 63 bits
WIDE_REMEDY: Final = (
    "Sealed seeds have 63: the environment should draw from self.np_random, which super().reset(seed=seed) seeds with "
    "any number, and not from np.random. The seeds of --seeds paper have 31"
)


def make(task: Task, video: bool = False, stock: bool = False) -> Any:
    """Make a new environment: the fast version if there is one, unless ``stock``.

    Every episode gets a new object, because not every environment forgets everything on reset."""
    if task.view.world_key:
        from evopolicygym.tasks.novel.generate import make_world

        return make_world(task, "rgb_array" if video else None)
    _import_requirements(task)
    if video and "mujoco" in task.requires and "MUJOCO_GL" not in os.environ:
        raise UserError("MuJoCo cannot draw: there is no headless OpenGL library on this machine", RENDERING_REMEDY)
    import gymnasium

    options: dict[str, Any] = {"render_mode": "rgb_array"} if video else {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*The environment roundabout-v0 is out of date.*")
        try:
            with _kept_models(task, stock):
                env = gymnasium.make(task.env_id, disable_env_checker=True, **options, **task.env_options)
        except (Exception, SystemExit) as error:
            missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
            raise UserError(
                f"{task.env_id} cannot be made: {type(error).__name__}: {error}", _remedy(missing) if missing else ""
            ) from error
    if not stock:
        upgrade(env)
    if task.view.variant is Variant.SHIFTED:
        from evopolicygym.tasks.shifted_env import apply_shift

        env = apply_shift(env, task)
    return env


def _kept_models(task: Task, stock: bool) -> AbstractContextManager[None]:
    if "mujoco" not in task.requires or implementation(task, stock) == "stock":
        return nullcontext()
    from evopolicygym.fast.mujoco_models import kept_models

    return kept_models()


def implementation(task: Task, stock: bool = False) -> str:
    """Return what ``make`` makes on this machine: "fast" or "stock". Both give the same returns, to the bit."""
    fast = not stock and task.env_id in CATALOGUE and why_stock(task.env_id) is None
    return "fast" if fast else "stock"


def reset(env: Any, seed: int) -> Any:
    """Reset with the paper's seeding, and return the first observation. Errors are faults: no policy has acted yet."""
    try:
        observation, _ = env.reset(seed=seed)
        env.action_space.seed(seed + 1)
        env.observation_space.seed(seed + 2)
    except Exception as error:
        name = env.spec.id if env.spec else type(env.unwrapped).__name__
        wide = seed >= NUMPY_SEEDS and isinstance(error, ValueError | OverflowError)
        seeded, remedy = (" with a seed of more than 32 bits", f". {WIDE_REMEDY}") if wide else ("", "")
        text = f"{name} cannot be reset{seeded}: {type(error).__name__}: {error}{remedy}"
        raise Fault(text, is_permanent(error)) from error
    return observation


def stepper(task: Task, env: Any) -> Callable[[Any], Any]:
    """Return ``env.step`` of an environment that has been reset, without unneeded work.

    Left out are wrappers for what the caller checks itself (that reset came first, and the horizon), and MuJoCo's
    profiler."""
    from gymnasium.wrappers import OrderEnforcing, TimeLimit

    _stop_profiler()
    while type(env) is OrderEnforcing or (type(env) is TimeLimit and env._max_episode_steps >= task.horizon):
        env = env.env
    step: Callable[[Any], Any] = env.step
    return step


def schemas(task: Task, env: Any) -> tuple[Schema, Schema]:
    """Return the observation and action space as a policy sees them."""
    own = own_schemas(task, env)
    translation = translation_of(task, *own)
    return (translation.obs_space, translation.action_space) if translation else own


def own_schemas(task: Task, env: Any) -> tuple[Schema, Schema]:
    """Return the spaces of the environment itself; at the full text with the names that the task gives to their
    entries."""
    try:
        observation, action = schema_of(env.observation_space), schema_of(env.action_space)
        check_action(action)
    except ValueError as error:
        raise UserError(f"{task.id} cannot be played: {error}") from error
    if task.view.text is not TextLevel.FULL:
        return observation, action
    return with_names(observation, task.observation), with_names(action, task.action)


@cache
def opengl() -> str | None:
    """Return MuJoCo's name of the headless OpenGL library that can be loaded here; None if there is none."""
    for backend, library in OPENGL.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return backend
    return None


def _import_requirements(task: Task) -> None:
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    if "MUJOCO_GL" not in os.environ and (backend := opengl()):
        os.environ["MUJOCO_GL"] = backend  # read by mujoco on its first import
    if ":" in task.env_id and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    _mute_notices()
    for module in task.requires:
        try:
            with warnings.catch_warnings():  # with `python -W error`, Box2D crashes on this one
                warnings.filterwarnings("ignore", message="builtin type [Ss]wig.* has no __module__ attribute")
                importlib.import_module(module)
        except (Exception, SystemExit) as error:
            is_missing = isinstance(error, ImportError)
            reason = str(error) if is_missing else f"{type(error).__name__}: {error}"
            remedy = _remedy(module, "" if is_missing else "--force-reinstall ")
            raise UserError(f"task {task.id} needs {module}, which does not import: {reason}", remedy) from error


def _mute_notices() -> None:
    """Silence the notices about other environments that Farama packages print on import."""
    try:
        from farama_notifications import notifications
    except ImportError:
        return
    notifications.clear()


def _stop_profiler() -> None:
    """Stop MuJoCo's profiler, which every new MjData starts for the whole process.

    With it a step of Reacher reads the clock 228 times, a fifth of its time, for figures that only ``data.timer``
    shows. A clock that the environment has set itself stays."""
    mujoco = sys.modules.get("mujoco")
    get_clock, set_clock = (getattr(mujoco, name, None) for name in ("get_mjcb_time", "set_mjcb_time"))
    if get_clock and set_clock and get_clock() is None:
        set_clock(None)


def _remedy(module: str, options: str = "") -> str:
    names = DISTRIBUTIONS_OF_MODULE.get(module, (module,))
    return f"pip install {options}" + " ".join(f"{name}=={pins()[name]}" if name in pins() else name for name in names)


REDIRECTING: Final = threading.RLock()  # otherwise a thread would save and restore the redirection of another


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Redirect the standard output of Python and of the C library to standard error during the block.

    Environments print when they are imported and made, which would corrupt the data that a command prints. Workers do
    not need this: their standard output is discarded."""
    with REDIRECTING:
        _flush()
        stdout = os.dup(1)
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _flush()
            os.dup2(stdout, 1)
            os.close(stdout)


def _flush() -> None:
    """Write buffered output to where it was printed."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
