"""video.mp4: H.264, one frame per step, written as it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import av
import numpy as np
from av.video.stream import VideoStream

DEFAULT_FPS = 30


class Video:
    """Draws the environment after every step."""

    def __init__(self, path: Path, env: Any) -> None:
        self._env = env
        self._container = av.open(str(path), "w")
        self._stream: VideoStream | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._stream is not None:
            for packet in self._stream.encode():
                self._container.mux(packet)
        self._container.close()

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None:
        self._draw()

    def last(self, t: int, obs: Any) -> None:
        if self._stream is None:
            self._draw()  # not one step was played: the start is all there is to see

    def _draw(self) -> None:
        image = _even(np.asarray(self._env.render(), np.uint8))
        stream = self._stream or self._open(image)
        for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
            self._container.mux(packet)

    def _open(self, image: Any) -> VideoStream:
        fps = int(self._env.metadata.get("render_fps") or DEFAULT_FPS)
        stream = self._container.add_stream("libx264", rate=fps)
        stream.height, stream.width = image.shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "23"}
        self._stream = stream
        return stream


def _even(image: Any) -> Any:
    """H.264 stores colour at half resolution, so both sides must be even."""
    height, width = image.shape[:2]
    return np.ascontiguousarray(image[: height - height % 2, : width - width % 2])
