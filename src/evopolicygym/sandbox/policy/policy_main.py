"""The jailed process: load the policy, answer resets and steps. The judge trusts nothing that it sends."""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any, Final, NoReturn

import numpy as np

from evopolicygym.sandbox.policy import randomness
from evopolicygym.sandbox.policy.codec import InvalidAction, Schema, action_encoder, observation_decoder, size_of
from evopolicygym.sandbox.policy.protocol import (
    ANSWERS_FD,
    HEAD_BYTES,
    READY,
    REPORT_BYTES,
    REPORT_FD,
    REQUESTS_FD,
    STDIO_BYTES,
    Stage,
    clip,
    error_frame,
)

DENIED_IMPORTS: Final = frozenset(
    "evopolicygym gymnasium gym mujoco gymnasium_robotics minigrid highway_env Box2D pygame pettingzoo dm_control "
    "envpool torch jax tensorflow pandas matplotlib".split()
)
WARM_UP_ROUNDS: Final = 64
MAY_IMPORT: Final = "policies may import the standard library, numpy, scipy and the files beside policy.py"

Act = Callable[[Any], Any]


@dataclass(frozen=True)
class Assignment:
    """All that a policy process receives. The same in every split except the key, which reveals nothing."""

    folder: str
    obs_space: Schema
    action_space: Schema
    env_meta: Mapping[str, Any]
    randomness_key: bytes


class HungUp(BaseException):
    """The judge closed its end: the episode is over."""


class _NoOtherModules:
    """Last finder on the path: raises for modules that were not found, with a message that says what may be
    imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path is not None:
            return None
        raise ModuleNotFoundError(f"No module named {name!r}: {MAY_IMPORT}", name=name)


class _CappedOutput(io.RawIOBase):
    """stdout or stderr: keeps the first bytes, drops the rest, never blocks and never fails."""

    def __init__(self, fd: int) -> None:
        self._fd, self._remaining = fd, STDIO_BYTES

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any, /) -> int:
        if part := bytes(data[: self._remaining]):
            self._remaining -= os.write(self._fd, part)
        return len(data)


def run(assignment: Assignment) -> NoReturn:
    """Play until the judge hangs up or the policy fails. Never returns to the zygote's code."""
    stage = Stage.IMPORT
    try:
        sys.path.insert(0, assignment.folder)
        randomness.begin(assignment.randomness_key)
        cls = _load(assignment.folder)
        stage = Stage.INIT
        policy = _construct(cls, assignment)
        play = _player(assignment.obs_space, assignment.action_space, REQUESTS_FD, ANSWERS_FD)
        os.write(ANSWERS_FD, READY)
        stage = Stage.RESET
        nonce = os.read(REQUESTS_FD, HEAD_BYTES)
        policy.reset(0)
        stage = Stage.ACT
        os.write(ANSWERS_FD, nonce)
        play(policy.act)
    except HungUp:
        os._exit(0)
    except BaseException as error:
        _report_failure(stage, error, assignment.folder)
    os._exit(1)


def _player(obs_space: Schema, action_space: Schema, requests: int, answers: int) -> Callable[[Act], NoReturn]:
    """Return a loop that sends one answer for each request. It is as lean as possible, because it runs on cold caches
    between two context switches, and uses the same calls as the judge, whose code is then still in the caches."""
    size = HEAD_BYTES + size_of(obs_space)
    frame = bytearray(size)
    decode, encode = observation_decoder(obs_space, frame, HEAD_BYTES), action_encoder(action_space)
    readinto, write = io.FileIO(requests, closefd=False).readinto, os.write

    def play(act: Act) -> NoReturn:
        while True:
            received = readinto(frame)
            while received != size:  # a large observation comes in pieces
                more = readinto(memoryview(frame)[received:])
                if not more:
                    raise HungUp
                received += more
            write(answers, frame[:HEAD_BYTES] + encode(act(decode())))

    return play


def warm_up() -> None:
    """Run the loop before there is a policy: the interpreter specialises code that has run a few times, and children
    inherit what the zygote has specialised."""
    box: Schema = {"type": "Box", "shape": [4], "dtype": "float32", "low": -1.0, "high": 1.0}
    discrete: Schema = {"type": "Discrete", "n": 2, "start": 0}
    randomness.begin(bytes(32))
    for action_space, action in ((box, np.zeros(4, np.float32)), (discrete, 1)):
        (requests, ours), (theirs, answers) = os.pipe(), os.pipe()
        os.write(ours, bytes(WARM_UP_ROUNDS * (HEAD_BYTES + size_of(box))))
        os.close(ours)
        try:
            _player(box, action_space, requests, answers)(lambda _, answer=action: answer)  # type: ignore[misc]
        except HungUp:
            pass
        for descriptor in (requests, theirs, answers):
            os.close(descriptor)


def hide_package() -> None:
    """Make the interpreter look like a plain Python to policies. Done once, in the zygote, because a child that changes
    memory has to copy it first. Nothing of this package can be imported afterwards."""
    for name in [name for name in sys.modules if name.split(".")[0] == "evopolicygym"]:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv[:] = ["policy"]
    sys.meta_path.append(_NoOtherModules())
    sys.stdout = io.TextIOWrapper(_CappedOutput(1), "utf-8", "replace", write_through=True)
    sys.stderr = io.TextIOWrapper(_CappedOutput(2), "utf-8", "replace", write_through=True)
    os.environ.clear()
    os.environ.update(HOME="/", LANG="C.UTF-8", TZ="UTC", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    randomness.install()


def _load(folder: str) -> type[Any]:
    path = os.path.join(folder, "policy.py")
    spec = importlib.util.spec_from_file_location("policy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["policy"] = module
    spec.loader.exec_module(module)
    cls = getattr(module, "Policy", None)
    if not isinstance(cls, type):
        raise ImportError("policy.py defines no class Policy")
    return cls


def _construct(cls: type[Any], assignment: Assignment) -> Any:
    for method in ("reset", "act"):
        if not callable(getattr(cls, method, None)):
            raise TypeError(f"class Policy has no method {method}: it needs reset(episode_index) and act(obs)")
    arguments = (dict(assignment.obs_space), dict(assignment.action_space), dict(assignment.env_meta))
    try:
        return cls(*arguments)
    except TypeError:
        _check_signature(cls, arguments)
        raise


def _check_signature(cls: type[Any], arguments: tuple[Any, ...]) -> None:
    try:
        inspect.signature(cls).bind(*arguments)
    except TypeError as error:
        raise TypeError(f"Policy.__init__ must accept (obs_space, action_space, env_meta): {error}") from None


def _report_failure(stage: Stage, error: BaseException, folder: str) -> None:
    if isinstance(error, MemoryError):
        stage = Stage.OOM
    elif stage is Stage.IMPORT and isinstance(error, ModuleNotFoundError) and error.name in DENIED_IMPORTS:
        stage = Stage.DENIED_IMPORT
    elif isinstance(error, InvalidAction):
        stage = Stage.INVALID_ACTION
    report = clip(_explain(error, folder)).encode(errors="replace")[:REPORT_BYTES]
    os.pwrite(REPORT_FD, report, 0)
    os.write(ANSWERS_FD, error_frame(stage))


def _explain(error: BaseException, folder: str) -> str:
    """Return the policy's own traceback, with file names relative to its folder."""
    if isinstance(error, InvalidAction):
        return str(error)
    try:
        report = traceback.TracebackException.from_exception(error, limit=-40, compact=True)
        _keep_own_frames(report)
        prefix = r"(?<![\w./~-])" + re.escape(folder.rstrip("/") + "/")  # where a path begins, not inside of one
        return re.sub(prefix, "", "".join(report.format()))
    except BaseException as problem:
        return f"{type(error).__name__} (its traceback could not be formatted: {type(problem).__name__})"


def _keep_own_frames(report: traceback.TracebackException | None) -> None:
    if report is not None:
        own_files = ("<frozen importlib", os.path.dirname(__file__))
        kept = [frame for frame in report.stack if not frame.filename.startswith(own_files)]
        report.stack = traceback.StackSummary.from_list(kept)
        _keep_own_frames(report.__cause__)
        _keep_own_frames(report.__context__)
