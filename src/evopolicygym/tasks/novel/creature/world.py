"""Generated creatures: find a gait for a drawn body.

A body of 2 to 6 limbs has to go far in a drawn direction, to go from place to place, or to go far with a load that must
not fall. New ground is rewarded: standing still gives 0, going back and forth gives nothing more, and a fallen load
costs. The expert is a rhythm with feedback for every joint, found by CMA-ES on the true body (``gait.py``). SAC is left
out: it needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.tasks.novel.creature.body import (
    ARRIVAL,
    ARRIVED,
    DROP,
    EFFORT,
    FALLEN,
    HORIZON,
    MOST_GAIN,
    TURN,
    Aim,
    CreatureBody,
    Vector,
    draw_body,
)
from evopolicygym.tasks.novel.creature.gait import Gait, find_gait
from evopolicygym.tasks.novel.creature.picture import CreaturePalette, draw_palette, draw_picture
from evopolicygym.tasks.novel.creature.text import describe_creature
from evopolicygym.tasks.novel.world import Act

VERSION: Final = 3
KEPT: Final = {1: 1.0, 2: 0.9, 3: 0.7, 4: 0.5}  # share of velocities that are measured


@dataclass(frozen=True)
class CreatureWorld:
    """A drawn body with its aim and sensors. Sensor k measures ``gains[k] * state[sensors[k]] + offsets[k]``, where
    ``state`` is what ``CreatureEnv.state`` returns."""

    body: CreatureBody
    aim: Aim
    heading: float
    frames: int
    scale: float
    places: tuple[float, float]
    spread: float
    sensors: Any
    gains: Vector
    offsets: Vector
    palette: CreaturePalette
    horizon: int = HORIZON

    @property
    def failure_return(self) -> float:
        return -EFFORT * self.horizon - (0.0 if self.body.load is None else self.scale * DROP)

    @cached_property
    def model(self) -> Any:
        """The MuJoCo model, which all environments of this world share and none changes."""
        import mujoco

        model = mujoco.MjModel.from_xml_string(self.body.model())
        # One body is one island: looking for islands takes a twentieth of a step, and changes nothing.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
        return model

    @cached_property
    def gait(self) -> Gait:
        """The best gait that was found. The search runs once in a process."""
        return find_gait(self)

    def make(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return CreatureEnv(self, render_mode)

    def expert(self, env: Any) -> Act:
        return self.gait.player(env)

    def texts(self) -> dict[str, Any]:
        return describe_creature(self)


class CreatureEnv(gymnasium.Env[Any, Any]):
    """The environment of a drawn body."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, world: CreatureWorld, render_mode: str | None = None) -> None:
        import mujoco

        self.world, self.render_mode = world, render_mode
        self.data = mujoco.MjData(world.model)
        self._step, self._reset, self._forward = mujoco.mj_step, mujoco.mj_resetData, mujoco.mj_forward
        self._first = 3 if world.body.flat else 7  # joint in qpos
        self._stand = self._standing()
        motors = world.model.nu
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(world.sensors),), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (motors,), np.float32)
        self.observes = True
        self.steps = 0
        self._east, self._north = math.cos(world.heading), math.sin(world.heading)
        self._has_places, self._flat, self._qpos = world.aim is Aim.PLACES, world.body.flat, self.data.qpos
        self.way = world.heading  # angle of the way to the place, seen from the place before
        self.place = (0.0, 0.0)
        self.best = 0.0
        self.load_geom = world.model.geom("load").id if world.body.load else -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        world, data, random = self.world, self.data, self.np_random
        self._reset(world.model, data)
        joints = len(data.qpos) - self._first
        data.qpos[:] = self._stand
        data.qpos[self._first :] += world.spread * random.standard_normal(joints)
        data.qvel[:] = world.spread * random.standard_normal(len(data.qvel))
        self.steps, self.way, self.place = 0, world.heading, (0.0, 0.0)
        if world.aim is Aim.PLACES:
            self._next_place()
        self._forward(world.model, data)
        self.best = self._ground()
        return self._observation() if self.observes else None, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        world, data = self.world, self.data
        data.ctrl[:] = action
        self._step(world.model, data, world.frames)
        self.steps += 1
        ground = self._ground()
        gain = min(max(ground - self.best, 0.0), MOST_GAIN)
        if gain > 0.0:
            self.best = ground
        if self._has_places and -ground < ARRIVED:
            gain += ARRIVAL
            self._next_place()
        command = data.ctrl
        effort = min(1.0, float(command @ command) / len(command))
        dropped = self.has_dropped()
        reward = world.scale * (gain - DROP * dropped) - EFFORT * effort
        observation = self._observation() if self.observes else None
        return observation, reward, dropped, self.steps >= world.horizon, {}

    def aim_at(self, place: tuple[float, float]) -> None:
        """Let the creature go to a place from now on."""
        self.place = place
        self.best = self._ground()

    def position(self) -> tuple[float, float]:
        """Return where the torso is on the ground."""
        return float(self._qpos[0]), 0.0 if self._flat else float(self._qpos[1])

    def has_dropped(self) -> bool:
        """Return whether there is a load, and it has fallen."""
        load, data = self.world.body.load, self.data
        return load is not None and bool(data.geom_xpos[self.load_geom, 2] - data.xpos[1, 2] < FALLEN * load.height)

    def aside(self) -> tuple[float, float]:
        """Return cosine and sine of the angle by which the creature should turn to where it is to go. In a plane, the
        cosine is 1 or -1."""
        (x, y), (to_x, to_y) = self.position(), self.place
        if not self._has_places:
            to_x, to_y = x + self._east, y + self._north
        if self._flat:
            return math.copysign(1.0, to_x - x), 0.0
        turn = math.atan2(to_y - y, to_x - x) - self.yaw()
        return math.cos(turn), math.sin(turn)

    def yaw(self) -> float:
        """Return the angle of the torso's front about the upright axis."""
        w, x, y, z = self._qpos[3:7].tolist()
        return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))

    def state(self) -> Vector:
        """Return all that sensors can measure."""
        data = self.data
        if self.world.aim is not Aim.PLACES:
            return np.concatenate((data.qpos, data.qvel))
        (x, y), (to_x, to_y) = self.position(), self.place
        distance, (ahead, left) = min(1.0, math.hypot(to_x - x, to_y - y)), self.aside()
        return np.concatenate((data.qpos, data.qvel, (distance * ahead, distance * left)))

    def _observation(self) -> Any:
        world = self.world
        return (self.state()[world.sensors] * world.gains + world.offsets).astype(np.float32)

    def _ground(self) -> float:
        """Return how far the creature has come, or minus the distance to its place."""
        x, y = self.position()
        if self._has_places:
            return -math.hypot(self.place[0] - x, self.place[1] - y)
        return x * self._east + y * self._north

    def _next_place(self) -> None:
        random, (near, far), (x, y) = self.np_random, self.world.places, self.position()
        if self.world.body.flat:
            self.way = math.pi * int(random.integers(2))
        else:
            self.way += float(random.uniform(-TURN, TURN))
        distance = float(random.uniform(near, far))
        self.aim_at((x + distance * math.cos(self.way), y + distance * math.sin(self.way)))

    def _standing(self) -> Vector:
        """Return the pose in which all joints are at 0 and the lowest part touches the ground."""
        model, data = self.world.model, self.data
        self._reset(model, data)
        self._forward(model, data)
        lowest = 0.0
        for geom in range(model.ngeom):
            if model.geom_bodyid[geom] == 0:
                continue
            radius, half = model.geom_size[geom][:2]
            reach = radius + half * abs(data.geom_xmat[geom][8])
            lowest = min(lowest, float(data.geom_xpos[geom][2] - reach))
        pose: Vector = data.qpos.copy()
        pose[1 if self.world.body.flat else 2] -= lowest - 0.01
        return pose

    def render(self) -> Any:
        return draw_picture(self)


def draw(generator: np.random.Generator, level: int) -> CreatureWorld:
    """Draw a creature of a level, its aim and its sensors."""
    uniform = generator.uniform
    aim = [Aim.FAR, Aim.PLACES, Aim.LOAD][generator.integers(3)]
    body = draw_body(generator, level, aim is Aim.LOAD)
    heading = math.pi * int(generator.integers(2)) if body.flat else uniform(-math.pi, math.pi)
    near = uniform(0.8, 1.2)
    sensors = _draw_sensors(generator, body, aim, KEPT[level])
    count = len(sensors)
    return CreatureWorld(
        body=body,
        aim=aim,
        heading=heading,
        frames=int(generator.integers(4, 7)),
        scale=uniform(2.0, 6.0),
        places=(near, near + uniform(0.4, 1.2)),
        spread=uniform(0.02, 0.06),
        sensors=sensors,
        gains=generator.choice((-1.0, 1.0), count) * 2.0 ** generator.integers(-1, 3, count),
        offsets=uniform(-0.5, 0.5, count),
        palette=draw_palette(generator),
    )


def _draw_sensors(generator: np.random.Generator, body: CreatureBody, aim: Aim, kept: float) -> Any:
    """Draw which entries of the state are measured, and their order. The place on the ground is never measured, some
    velocities are not, everything else is."""
    hinges = len(body.segments) + (0 if body.load is None else 1 if body.flat else 2)
    positions, velocities = (3 + hinges, 3 + hinges) if body.flat else (7 + hinges, 6 + hinges)
    measured = list(range(1 if body.flat else 2, positions))
    measured += [positions + entry for entry in range(velocities) if generator.random() < kept]
    if aim is Aim.PLACES:  # in a plane, nothing is aside
        measured += [positions + velocities + entry for entry in range(1 if body.flat else 2)]
    return generator.permutation(np.array(measured))
