"""video.mp4: H.264, one frame per step, encoded while the episode runs and named when it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import av
import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream

from evopolicygym.errors import Fault
from evopolicygym.files import link_unnamed, open_unnamed

DEFAULT_FPS = 30


class VideoRecorder:
    """Draws the environment after every step."""

    def __init__(self, path: Path, env: Any, max_bytes: int) -> None:
        self._path, self._env, self._room = path, env, max_bytes
        self._in_the_encoder = self._largest = 0
        self.left_out: tuple[str, ...] = ()
        self._file = open_unnamed(path.parent)
        self._container = av.open(self._file, "w", format="mp4")
        self._stream: VideoStream | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._file:
            with self._container:
                if self._stream is not None:
                    self._mux(self._stream.encode())
            if self._stream is not None:
                link_unnamed(self._file, self._path)

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        if self._room > self._in_the_encoder * self._largest:
            self._draw()
        elif not self.left_out:
            self.left_out = (f"the video ends before step {t}: it has reached its size limit",)

    def last(self, t: int, obs: Any) -> None:
        if self._stream is None:
            self._draw()  # no step was played: the video shows the start

    def _draw(self) -> None:
        image = _even(_picture(self._env))
        stream = self._stream or self._open(image)
        self._in_the_encoder += 1
        self._mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))

    def _mux(self, packets: list[Packet[VideoStream]]) -> None:
        for packet in packets:
            self._room -= packet.size
            self._largest = max(self._largest, packet.size)
            self._in_the_encoder -= 1
            self._container.mux(packet)

    def _open(self, image: Any) -> VideoStream:
        fps = int(self._env.metadata.get("render_fps") or DEFAULT_FPS)
        stream = self._container.add_stream("libx264", rate=fps)
        stream.height, stream.width = image.shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "23", "threads": "1"}  # the same bytes on any number of cores
        self._stream = stream
        return stream


def _picture(env: Any) -> Any:
    try:
        drawn = env.render()
    except NotImplementedError:
        drawn = None
    picture = np.asarray(drawn)
    if picture.ndim != 3 or picture.shape[2] != 3:
        given = "nothing" if drawn is None else f"an array of shape {picture.shape}"
        raise Fault(
            f"{env.spec.id} cannot be recorded as video: its render() returns {given}, not a picture of shape "
            "(height, width, 3). "
            "Record it without video: leave out --video, or use --video none for a run."
        )
    return picture.astype(np.uint8, copy=False)


def _even(image: Any) -> Any:
    """Cut an image to even sides: H.264 stores colour at half resolution."""
    height, width = image.shape[:2]
    return np.ascontiguousarray(image[: height - height % 2, : width - width % 2])
