"""What runs in the jailed process: load the policy, answer resets and steps. The judge believes nothing of it."""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import socket
import sys
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any, Final, NoReturn

from evopolicygym.sandbox import randomness
from evopolicygym.sandbox.codec import InvalidAction, Schema, action_encoder, observation_decoder, size_of
from evopolicygym.sandbox.wire import HEAD, STDIO_BYTES, Op, Stage, error_frame

DENIED_IMPORTS: Final = frozenset(
    "evopolicygym gymnasium gym mujoco gymnasium_robotics minigrid highway_env Box2D pygame pettingzoo dm_control "
    "envpool torch jax tensorflow pandas matplotlib".split()
)
MAY_IMPORT: Final = "policies may import the standard library, numpy, scipy and the files beside policy.py"


@dataclass(frozen=True)
class Assignment:
    """All that a policy process is told. The same in every split but for the key, which reveals nothing."""

    folder: str
    obs_space: Schema
    action_space: Schema
    env_meta: Mapping[str, Any]
    randomness_key: bytes


class DeniedImport(ModuleNotFoundError):
    pass


class _NothingElse:
    """Last finder on the path: whatever was not found is not there, and the message says what is."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path is not None:
            return None
        kind = DeniedImport if name in DENIED_IMPORTS else ModuleNotFoundError
        raise kind(f"No module named {name!r}: {MAY_IMPORT}", name=name)


class _Capped(io.RawIOBase):
    """stdout or stderr: keeps the first bytes, swallows the rest, never blocks and never fails."""

    def __init__(self, fd: int) -> None:
        self._fd, self._left = fd, STDIO_BYTES

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any, /) -> int:
        if part := bytes(data[: self._left]):
            self._left -= os.write(self._fd, part)
        return len(data)


def run(channel: socket.socket, assignment: Assignment) -> NoReturn:
    """Until the judge hangs up or the policy fails. Never returns to the zygote's code."""
    stage = Stage.IMPORT
    try:
        _prepare(assignment)
        cls = _load(assignment.folder)
        stage = Stage.INIT
        policy = _construct(cls, assignment)
        decode = observation_decoder(assignment.obs_space, HEAD.size)
        encode = action_encoder(assignment.action_space)
        frame_size = HEAD.size + size_of(assignment.obs_space)
        head, act, receive, send = HEAD, policy.act, channel.recv_into, channel.send
        send(head.pack(Op.READY, 0))
        while True:
            frame = bytearray(frame_size)
            if not receive(frame):
                os._exit(0)
            op, nonce = head.unpack_from(frame)
            if op == Op.STEP:
                stage = Stage.ACT
                send(head.pack(op, nonce) + encode(act(decode(frame))))
            else:
                stage = Stage.RESET
                policy.reset(0)
                send(head.pack(op, nonce))
    except BaseException as error:
        _confess(channel, stage, error, assignment.folder)
    os._exit(1)


def _prepare(assignment: Assignment) -> None:
    """Leave a process that looks like a plain Python started in the policy's folder."""
    for name in [name for name in sys.modules if name.split(".")[0] == "evopolicygym"]:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv[:] = ["policy"]
    sys.path.insert(0, assignment.folder)
    sys.meta_path.append(_NothingElse())
    sys.stdout = io.TextIOWrapper(_Capped(1), "utf-8", "replace", write_through=True)
    sys.stderr = io.TextIOWrapper(_Capped(2), "utf-8", "replace", write_through=True)
    os.environ.clear()
    os.environ.update(HOME="/", LANG="C.UTF-8", TZ="UTC", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    randomness.install(assignment.randomness_key)


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
        inspect.signature(cls).bind(*arguments)
    except TypeError as error:
        raise TypeError(f"Policy.__init__ must accept (obs_space, action_space, env_meta): {error}") from None
    return cls(*arguments)


def _confess(channel: socket.socket, stage: Stage, error: BaseException, folder: str) -> None:
    if isinstance(error, OSError) and stage in (Stage.ACT, Stage.RESET) and error.errno in (32, 104):
        return  # the judge hung up
    if isinstance(error, MemoryError):
        stage = Stage.OOM
    elif isinstance(error, DeniedImport) and stage is Stage.IMPORT:
        stage = Stage.DENIED_IMPORT
    elif isinstance(error, InvalidAction):
        stage = Stage.INVALID_ACTION
    channel.send(error_frame(stage, _explain(error, folder)))


def _explain(error: BaseException, folder: str) -> str:
    """The policy's own traceback, with its files named as its author knows them."""
    if isinstance(error, InvalidAction):
        return str(error)
    try:
        report = traceback.TracebackException.from_exception(error, limit=-40, compact=True)
        _keep_own_frames(report)
        return "".join(report.format()).replace(folder.rstrip("/") + "/", "")
    except BaseException as trouble:
        return f"{type(error).__name__} (its traceback could not be formatted: {type(trouble).__name__})"


def _keep_own_frames(report: traceback.TracebackException | None) -> None:
    if report is not None:
        harness = ("<frozen importlib", os.path.dirname(__file__))
        kept = [frame for frame in report.stack if not frame.filename.startswith(harness)]
        report.stack = traceback.StackSummary.from_list(kept)
        _keep_own_frames(report.__cause__)
        _keep_own_frames(report.__context__)
