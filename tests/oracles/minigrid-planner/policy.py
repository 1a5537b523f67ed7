"""MiniGrid by planning in levels that agree with what was seen and with how the task says that levels are drawn."""

from __future__ import annotations

from typing import Any

from corridor import CorridorPlanner
from key_room import KeyRoomPlanner
from maze import MazePlanner
from memory import Memory
from rooms import RoomsPlanner

PLANNERS = {
    "MiniGrid-ObstructedMaze-1Q-v1": MazePlanner,
    "MiniGrid-KeyCorridorS4R3-v0": CorridorPlanner,
    "MiniGrid-FourRooms-v0": RoomsPlanner,
    "MiniGrid-DoorKey-16x16-v0": KeyRoomPlanner,
}


class Policy:
    def __init__(self, obs_space: Any, action_space: Any, env_meta: Any) -> None:
        self.planner_class = PLANNERS[env_meta["env"]]
        self.reset(0)

    def reset(self, episode_index: int) -> None:
        self.memory = Memory()
        self.planner = self.planner_class(self.memory)
        self.route: list[int] = []
        self.last: int | None = None

    def act(self, obs: Any) -> int:
        new = self.memory.see(obs, self.last)
        if new or not self.route:
            self.route = self.planner.plan(str(obs["mission"]))
        self.last = self.route.pop(0)
        return self.last
