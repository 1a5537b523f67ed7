"""MiniGrid, with the world also kept as an array, from which the agent's view is cut in one piece.

Only how the observation is computed changes. Level generation, dynamics, rewards and drawing are stock, and work on the
same objects as in the stock version.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.world_object import Wall
from minigrid.envs.doorkey import DoorKeyEnv
from minigrid.envs.fourrooms import FourRoomsEnv
from minigrid.envs.keycorridor import KeyCorridorEnv
from minigrid.envs.obstructedmaze_v1 import ObstructedMaze_Full_V1
from minigrid.minigrid_env import MiniGridEnv
from numpy.typing import NDArray

VIEW: Final = 7  # cells on a side of the agent's view
AGENT: Final = (3, 6)  # the agent's cell in its own view, which looks up
MARGIN: Final = 6  # as far as a view can reach beyond the grid
AHEAD: Final = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction: right, down, left, up
CORNER: Final = ((0, -3), (-3, 0), (-6, -3), (-3, -6))  # of the view, from the agent's cell, by direction


def _encode(item: Any) -> tuple[int, int, int, bool]:
    """Return a cell of the array: type, colour and state as in the observation, and whether it hides what is behind
    it."""
    return (*item.encode(), not item.see_behind()) if item else (OBJECT_TO_IDX["empty"], 0, 0, False)


class ArrayMiniGrid(MiniGridEnv):
    """Mixin for stock environment classes. ``_cells[x + MARGIN, y + MARGIN]`` is the cell (x, y), encoded."""

    _encoded: Any = None  # the grid that ``_cells`` holds; every reset makes a new one
    _cells: NDArray[np.uint8]

    def _encode_grid(self) -> None:
        """Encode the whole grid, and around it walls, as ``Grid.slice`` (minigrid/core/grid.py) has them."""
        width, height = self.grid.width, self.grid.height
        cells = np.frombuffer(b"".join([bytes(_encode(item)) for item in self.grid.grid]), dtype=np.uint8)
        self._cells = np.full((width + 2 * MARGIN, height + 2 * MARGIN, 4), _encode(Wall()), dtype=np.uint8)
        self._cells[MARGIN:-MARGIN, MARGIN:-MARGIN] = cells.reshape(height, width, 4).swapaxes(0, 1)
        self._encoded = self.grid

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step as stock does, with a Python integer: numpy's takes 6 us for each comparison with an enum's member."""
        return super().step(int(action) if isinstance(action, np.integer) else action)

    def gen_obs(self) -> dict[str, Any]:
        """Replaces ``MiniGridEnv.gen_obs`` and ``gen_obs_grid`` (minigrid/minigrid_env.py) with ``Grid.encode``.

        They cut the view out of the grid, turn it, find what is visible, put the carried object where the agent is, and
        encode: cells that are not visible as zeros. Here the cells are encoded first, which commutes with cutting and
        turning. A step changes no cell but the one the agent faces (pickup, drop, toggle; it does not turn in the same
        step), so that one is encoded anew. All values are integers, so there is no rounding to differ.
        """
        if self._encoded is not self.grid:
            self._encode_grid()
        x, y, direction = int(self.agent_pos[0]), int(self.agent_pos[1]), int(self.agent_dir)
        front_x, front_y = x + AHEAD[direction][0], y + AHEAD[direction][1]
        self._cells[front_x + MARGIN, front_y + MARGIN] = _encode(self.grid.grid[front_y * self.grid.width + front_x])
        left, top = x + CORNER[direction][0] + MARGIN, y + CORNER[direction][1] + MARGIN
        view = _turned(self._cells[left : left + VIEW, top : top + VIEW], direction)
        image = np.multiply(view[:, :, :3], _visible(view[:, :, 3].tobytes()), order="C")
        image[AGENT] = _encode(self.carrying)[:3]
        return {"image": image, "direction": self.agent_dir, "mission": self.mission}


def _turned(cells: NDArray[np.uint8], direction: int) -> NDArray[np.uint8]:
    """``Grid.rotate_left`` (minigrid/core/grid.py), direction + 1 times: the agent then looks up."""
    if direction == 0:
        return cells[::-1].swapaxes(0, 1)
    if direction == 1:
        return cells[::-1, ::-1]
    return cells[:, ::-1].swapaxes(0, 1) if direction == 2 else cells


@lru_cache(maxsize=4096)
def _visible(opaque: bytes) -> NDArray[np.uint8]:
    """``Grid.process_vis`` (minigrid/core/grid.py): the same sweeps in the same order, over cell (i, j) at 7 i + j.

    It depends on nothing but which cells of the view hide what is behind them. Ones where the agent sees, noughts
    elsewhere, shaped to multiply a view by.
    """
    seen = bytearray(VIEW * VIEW)
    seen[VIEW * AGENT[0] + AGENT[1]] = 1
    for j in reversed(range(VIEW)):
        for sweep, beside in ((range(VIEW - 1), VIEW), (range(VIEW - 1, 0, -1), -VIEW)):
            for i in sweep:
                cell = VIEW * i + j
                if seen[cell] and not opaque[cell]:
                    seen[cell + beside] = 1
                    if j > 0:
                        seen[cell + beside - 1] = seen[cell - 1] = 1
    return np.frombuffer(bytes(seen), dtype=np.uint8).reshape(VIEW, VIEW, 1)


class FastDoorKey(ArrayMiniGrid, DoorKeyEnv):
    pass


class FastFourRooms(ArrayMiniGrid, FourRoomsEnv):
    pass


class FastKeyCorridor(ArrayMiniGrid, KeyCorridorEnv):
    pass


class FastObstructedMaze(ArrayMiniGrid, ObstructedMaze_Full_V1):
    pass


FAST: Final[dict[type, type]] = {
    DoorKeyEnv: FastDoorKey,
    FourRoomsEnv: FastFourRooms,
    KeyCorridorEnv: FastKeyCorridor,
    ObstructedMaze_Full_V1: FastObstructedMaze,
}


def upgrade(env: Any) -> None:
    """Make a stock environment fast, unless its view has another size or goes through walls."""
    if env.agent_view_size == VIEW and not env.see_through_walls:
        env.__class__ = FAST[type(env)]
