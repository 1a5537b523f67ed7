"""What is kept of an episode while it runs: a stream to disk. Memory does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.records import Recording
from evopolicygym.sandbox.policy.codec import Schema


class Recorder(Protocol):
    """Told of every step, then of the last observation. ``left_out`` says in words what it did not keep."""

    @property
    def left_out(self) -> tuple[str, ...]: ...

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None: ...

    def last(self, t: int, obs: Any) -> None: ...


class Recorders:
    """All that was asked for, opened and closed together."""

    def __init__(self, recording: Recording, env: Any, obs_space: Schema) -> None:
        self._recording, self._env, self._obs_space = recording, env, obs_space
        self._open: list[Recorder] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with _judges_doing():
            from evopolicygym.execution.trajectory import TrajectoryRecorder
            from evopolicygym.execution.video import VideoRecorder

        folder, max_bytes = Path(self._recording.folder), self._recording.max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        if self._recording.trajectory:
            self._open.append(self._stack.enter_context(TrajectoryRecorder(folder, self._obs_space, max_bytes)))
        if self._recording.video:
            self._open.append(self._stack.enter_context(VideoRecorder(folder / "video.mp4", self._env, max_bytes)))
        return self

    def __exit__(self, *exception: object) -> None:
        with _judges_doing():
            self._stack.close()

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(what for recorder in self._open for what in recorder.left_out)

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None:
        with _judges_doing():
            for recorder in self._open:
                recorder.step(t, obs, action, reward, terminated, truncated)

    def last(self, t: int, obs: Any) -> None:
        with _judges_doing():
            for recorder in self._open:
                recorder.last(t, obs)


@contextmanager
def _judges_doing() -> Iterator[None]:
    """A full disk or a renderer that fails is nothing that a policy did."""
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        text = f"the episode cannot be recorded: {type(error).__name__}: {error}"
        raise Fault(text, is_permanent(error)) from error
