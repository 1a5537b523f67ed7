"""Trainers: learners that improve an actor step by step, and can be stopped and continued."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol
from zipfile import BadZipFile, ZipFile

import numpy as np

from evopolicygym.agents.builtin.learners.networks import Moments, NetworkShape, sees_images
from evopolicygym.agents.builtin.learners.search import SearchMethod, SearchState, actor_of, search
from evopolicygym.agents.builtin.learners.search_methods import make_method
from evopolicygym.agents.builtin.policies.actor import Actor, Vector
from evopolicygym.baselines.rollouts import SimulatorPlayer, spaces_of
from evopolicygym.errors import UserError
from evopolicygym.files import read_file, write_atomic
from evopolicygym.printable import one_line
from evopolicygym.tasks.splits import Splits
from evopolicygym.tasks.task import Task

SAVE_EVERY_S: Final = 20.0
IMAGE_CASES: Final = 2
SEARCH_POPULATION: Final = 32
STATE_FILE: Final = "search.npz"
MAX_STATE_BYTES: Final = 256 << 20  # also unpacked
MAX_SHOWN: Final = 200  # characters of an error in a message
# What a file that is torn, or comes from another person, can raise.
UNREADABLE: Final = (OSError, ValueError, LookupError, TypeError, ArithmeticError, EOFError, MemoryError, BadZipFile)


class Trainer(Protocol):
    """A training. ``actor`` is the current best guess; ``settings`` are for the record."""

    settings: dict[str, Any]
    versions: dict[str, str]

    @property
    def episodes(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def actor(self) -> Actor: ...

    def train(self, until_steps: int, report: Callable[[], object]) -> None:
        """Train until at least so many steps were played in all. ``report`` is called from time to time."""

    def save(self) -> None:
        """Write the state, so that a training that is killed continues from here."""

    def close(self) -> None: ...


class ReplayableMethod:
    """A search method that keeps the results of each generation, so that repeating them brings it to the same state.
    Nothing is unpickled, and it takes no episodes."""

    def __init__(self, method: SearchMethod, results: list[Vector]) -> None:
        self._method, self.results = method, results
        self.plays_centre, self.adapts = method.plays_centre, method.adapts
        for means in results:
            method.tell(method.ask(), means)

    @property
    def centre(self) -> Vector:
        return self._method.centre

    def ask(self) -> list[Vector]:
        return self._method.ask()

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        self.results.append(means)
        self._method.tell(candidates, means)


class SearchTrainer:
    """Trains with one of the search methods. Its state is in ``folder``, and is taken up if there is one."""

    def __init__(
        self, name: str, task: Task, splits: Splits, seed: int, jobs: int, folder: Path, hidden: int = 0
    ) -> None:
        spaces = spaces_of(task)
        self._shape = NetworkShape.of(spaces, (hidden,) if hidden else ())
        self._file = folder / STATE_FILE
        method = make_method(name, self._shape.parameters, seed, SEARCH_POPULATION)
        try:
            self._state, results = self._load(Moments.of(spaces))
            self._method = ReplayableMethod(method, results)
        except UNREADABLE as error:
            raise UserError(
                f"{self._file} is not the state of this training: {one_line(error)[:MAX_SHOWN]}",
                f"Delete {self._file}, and the training starts from the beginning.",
            ) from error
        self._player = SimulatorPlayer(task, splits, jobs)
        least = IMAGE_CASES if sees_images(spaces.observation) else 1
        self._search = search(self._method, self._player, self._shape, self._state, least)
        self._saved = time.monotonic()
        self.settings: dict[str, Any] = {"hidden": hidden, "population": SEARCH_POPULATION}
        self.versions = {"numpy": np.__version__}

    @property
    def episodes(self) -> int:
        return self._state.episodes

    @property
    def steps(self) -> int:
        return self._state.steps

    @property
    def actor(self) -> Actor:
        return actor_of(self._shape, self._method.centre, self._state.moments.normalisation())

    def train(self, until_steps: int, report: Callable[[], object]) -> None:
        while self.steps < until_steps:
            for _ in islice(self._search, 1):
                pass
            report()
            if time.monotonic() - self._saved > SAVE_EVERY_S:
                self.save()

    def save(self) -> None:
        state, file = self._state, io.BytesIO()
        numbers = [state.generation, state.cases, state.episodes, state.steps, state.moments.count]
        moments = {"total": state.moments.total, "squares": state.moments.squares}
        np.savez(file, allow_pickle=False, numbers=np.array(numbers), told=np.array(self._method.results), **moments)
        write_atomic(self._file, file.getvalue())
        self._saved = time.monotonic()

    def close(self) -> None:
        self._player.__exit__()

    def _load(self, fresh: Moments) -> tuple[SearchState, list[Vector]]:
        if not self._file.exists():
            return SearchState(fresh), []
        data = io.BytesIO(read_file(self._file.parent, self._file.name, MAX_STATE_BYTES))
        with ZipFile(data) as archive:
            if (size := sum(entry.file_size for entry in archive.infolist())) > MAX_STATE_BYTES:
                raise ValueError(f"{size} bytes, more than {MAX_STATE_BYTES}")
        with np.load(data, allow_pickle=False) as file:
            generation, cases, episodes, steps, count = (int(number) for number in file["numbers"])
            if any(file[name].shape != fresh.total.shape for name in ("total", "squares")):
                raise ValueError("sums of other observations")
            moments = Moments(fresh.mean, fresh.scale, count, file["total"], file["squares"])
            return SearchState(moments, generation, cases, episodes, steps), list(file["told"])
