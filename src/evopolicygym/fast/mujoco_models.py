"""Compiled MuJoCo models, kept between episodes.

Every episode gets a new environment, and every new environment compiles its model from XML and meshes: 60 ms for the
Fetch robot, twice as long as an episode. A copy of the compiled model has the same bits and takes microseconds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mujoco

_models: dict[str, Any] = {}


@contextmanager
def kept_models() -> Iterator[None]:
    """While the block runs, have ``MjModel.from_xml_path`` compile each file once and return a copy of the result.

    Only for environments whose files are part of a package: what else a file includes is not looked at again."""
    compile_file = mujoco.MjModel.from_xml_path

    def load(path: str, *options: Any) -> Any:
        if options:
            return compile_file(path, *options)
        if path not in _models:
            _models[path] = compile_file(path)
        return copy.copy(_models[path])

    mujoco.MjModel.from_xml_path = load
    try:
        yield
    finally:
        mujoco.MjModel.from_xml_path = compile_file
