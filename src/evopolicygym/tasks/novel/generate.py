"""Draws the task of a key: again and again, until it can be solved and is worth solving.

What was found is kept in a cache, because measuring takes seconds to minutes. The cache holds no key. A run that exists
is played with the draw in its record: measuring on another machine cannot change its task."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import importlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Self, cast

import numpy as np

from evopolicygym.errors import Fault, UserError
from evopolicygym.files import write_atomic
from evopolicygym.tasks.novel.measure import CASES, SEARCH_CASES, WorldMeasure, measure_world
from evopolicygym.tasks.novel.world import World, WorldFamily
from evopolicygym.tasks.spaces import describe, schema_of
from evopolicygym.tasks.task import FailureReturn, Task

NOVEL: Final = "novel"
FAMILIES: Final = {  # what each demands
    "rules": "discovering rules, memory, planning",
    "arcade": "perception from pixels, timing",
    "control": "system identification, tuning",
    "creature": "gaits, coordination",
}
LEVELS: Final = (1, 2, 3, 4)
MOST_DRAWS: Final = 100
SCALE_TOLERANCE: Final = 1e-5  # of the larger end: rounding, and the last bits of another machine
CACHE_VARIABLE: Final = "EVOPOLICYGYM_CACHE"
UNKNOWN: Final = "drawn from your key"
FAILURE_DERIVATION: Final = "No way of playing on can score less; it follows from the rewards of the generated task."


@dataclass(frozen=True)
class Drawn:
    """The draw that was accepted: its number, counted from 0, and the ends of its scale. ``objections`` are why the
    draws before it were not."""

    number: int
    low: float
    high: float
    objections: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Return what names the draw in a record, beside the hash of the key."""
        return {"draw": self.number, "low": self.low, "high": self.high}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the draw of a record. The record may be forged, and the options no table."""
        facts = options if isinstance(options, Mapping) else {}
        number, ends = facts.get("draw"), (facts.get("low"), facts.get("high"))
        low, high = map(_float_or_nan, ends)
        if type(number) is not int or not 0 <= number < MOST_DRAWS or not -math.inf < low < high < math.inf:
            raise UserError(
                f"the record has no valid draw of its generated task: {options!r:.200}",
                "Take the run's folder from where it was played.",
            )
        return cls(number, low, high)


def _float_or_nan(value: object) -> float:
    """Return a number as a float; an integer can have more digits than a float holds."""
    return float(value) if isinstance(value, float | int) and abs(value) <= sys.float_info.max else math.nan


@cache
def novel() -> dict[str, Task]:
    """Return the collection by task id. What is drawn is not known before there is a key."""
    return {task.id: task for family in FAMILIES for level in LEVELS for task in [_unknown(family, level)]}


def is_novel(task_id: str) -> bool:
    return task_id in novel()


def world_key(task_id: str, sealing_key: bytes) -> bytes:
    """Return the secret of one task under a sealing key."""
    return hmac.digest(sealing_key, f"evopolicygym world|{task_id}".encode(), "sha256")


def generated(task: Task, sealing_key: bytes, recorded: Mapping[str, Any] | None = None) -> Task:
    """Return a novel task as it is drawn from a sealing key. ``recorded`` are the ``env_options`` of an existing run:
    they name the draw, so that none is searched for."""
    family, level = task_parts(task.id)
    key = world_key(task.id, sealing_key)
    drawn = _cached(family, level, key) if recorded is None else Drawn.from_options(recorded)
    world = draw_world(family, level, key, drawn.number)
    env = world.make()
    return replace(
        task,
        version=family_version(family),
        horizon=world.horizon,
        failure_return=FailureReturn(world.failure_return, FAILURE_DERIVATION),
        observation_space=describe(schema_of(env.observation_space)),
        action_space=describe(schema_of(env.action_space)),
        env_options=drawn.options(),
        view=replace(task.view, world_key=key),
        **world.texts(),
    )


def scale_facts(task: Task) -> dict[str, Any]:
    """Return the scale of a generated task, for its record."""
    drawn = Drawn.from_options(task.env_options)
    return {"low": drawn.low, "high": drawn.high, "draws": drawn.number + 1}


def make_world(task: Task, render_mode: str | None = None) -> Any:
    """Make the environment of a generated task."""
    family, level = task_parts(task.id)
    return draw_world(family, level, task.view.world_key, task.env_options["draw"]).make(render_mode)


@lru_cache(maxsize=4)
def draw_world(family: str, level: int, key: bytes, number: int) -> World:
    """Return draw ``number`` of a key."""
    seed = hmac.digest(key, f"draw|{family_version(family)}|{number}".encode(), "sha256")
    return _family(family).draw(np.random.default_rng(int.from_bytes(seed)), level)


def search_draws(family: str, level: int, key: bytes) -> Drawn:
    """Draw until a world is accepted."""
    objections: list[str] = []
    for number in range(MOST_DRAWS):
        measured = measure(family, level, key, number)
        if (objection := measured.objection()) is None:
            return Drawn(number, rounded(measured.low), rounded(measured.high), tuple(objections))
        objections.append(objection)
    raise Fault(f"no world of {NOVEL}/{family}-{level} was accepted in {MOST_DRAWS} draws: {objections[-1]}")


def measure(family: str, level: int, key: bytes, number: int) -> WorldMeasure:
    world = draw_world(family, level, key, number)
    return measure_world(world, world_seeds(key, "hidden", CASES), world_seeds(key, "search", SEARCH_CASES))


def scale_problem(task: Task) -> str | None:
    """Measure a generated task as it was when it was drawn; return what is wrong with its scale, in words. Draws before
    it are measured, too: a task that is easier than the first acceptable one must not be chosen."""
    (family, level), drawn = task_parts(task.id), Drawn.from_options(task.env_options)
    for number in range(drawn.number + 1):
        measured = measure(family, level, task.view.world_key, number)
        objection = measured.objection()
        if number < drawn.number and objection is None:
            return f"draw {drawn.number + 1} is recorded, but draw {number + 1} is acceptable: the task is another one"
    if objection:
        return f"the recorded draw is not acceptable here: {objection}"
    tolerance = SCALE_TOLERANCE * max(abs(measured.low), abs(measured.high))
    if max(abs(measured.low - drawn.low), abs(measured.high - drawn.high)) <= tolerance:
        return None
    measured_range = f"{rounded(measured.low)} to {rounded(measured.high)}"
    return f"the recorded scale is {drawn.low} to {drawn.high}, but measured here it is {measured_range}"


def rounded(value: float) -> float:
    """Round, so that the last bits of another machine do not give the task another id."""
    return float(f"{value:.6g}")


def world_seeds(key: bytes, purpose: str, count: int) -> Iterator[int]:
    for number in range(count):
        yield int.from_bytes(hmac.digest(key, f"{purpose}|{number}".encode(), "sha256")[:8]) >> 1


@cache
def _cached(family: str, level: int, key: bytes) -> Drawn:
    path = _cache_path(family, level, key)
    if stored := _stored(path, key):
        return stored
    with _only_one(path.with_suffix(".lock")):  # runs of a suite begin at once, and measuring takes all of a core
        if stored := _stored(path, key):
            return stored
        print(f"drawing {NOVEL}/{family}-{level} from your key; this takes seconds to minutes", file=sys.stderr)
        drawn = search_draws(family, level, key)
        with suppress(OSError):
            _keep(path, key, drawn)
    return drawn


def remember(task_id: str, key: bytes, drawn: Drawn) -> None:
    """Put the accepted draw of a key, which was found before, into the cache."""
    path = _cache_path(*task_parts(task_id), key)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _keep(path, key, drawn)


def _cache_path(family: str, level: int, key: bytes) -> Path:
    name = hashlib.sha256(f"{family}|{level}|{family_version(family)}|{np.__version__}|".encode() + key).hexdigest()
    return _cache_folder() / f"{name}.json"


def _keep(path: Path, key: bytes, drawn: Drawn) -> None:
    text = json.dumps(vars(drawn))
    write_atomic(path, json.dumps({"drawn": text, "code": _cache_code(path, text, key)}).encode())


def _stored(path: Path, key: bytes) -> Drawn | None:
    """Read a file of the cache. One that was not written with the key is ignored: it could change a scale."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        entry = json.loads(path.read_text())
        if hmac.compare_digest(entry["code"], _cache_code(path, entry["drawn"], key)):
            data = json.loads(entry["drawn"])
            return Drawn(int(data["number"]), float(data["low"]), float(data["high"]), tuple(data["objections"]))
    return None


def _cache_code(path: Path, text: str, key: bytes) -> str:
    """Return the code that binds a text to the key and to the name of its file, which names the task."""
    return hmac.digest(key, f"evopolicygym cache|{path.name}|{text}".encode(), "sha256").hex()


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; all of them where no lock can be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open(path, "wb")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        path.unlink(missing_ok=True)


def _cache_folder() -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get(CACHE_VARIABLE) or Path(cache_home) / "evopolicygym") / NOVEL


@cache
def _family(name: str) -> WorldFamily:
    return cast(WorldFamily, importlib.import_module(f"evopolicygym.tasks.novel.{name}"))


def family_version(family: str) -> int:
    return _family(family).VERSION


def task_parts(task_id: str) -> tuple[str, int]:
    """Return family and level of a generated task."""
    family, _, level = task_id.removeprefix(f"{NOVEL}/").rpartition("-")
    return family, int(level)


def _unknown(family: str, level: int) -> Task:
    """Return a novel task before it is drawn."""
    text = "Drawn from your sealing key."
    return Task(
        id=f"{NOVEL}/{family}-{level}",
        env_id=f"{NOVEL}/{family}-{level}",
        title=f"A generated task: {family}, level {level}",
        family=family,
        demand=FAMILIES[family],
        horizon=1,
        observation_space=UNKNOWN,
        action_space=UNKNOWN,
        objective=text,
        reward=text,
        termination=text,
        failure_return=FailureReturn(0.0, FAILURE_DERIVATION),
    )
