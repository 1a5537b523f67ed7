"""BipedalWalker-v3, fast: the same step with less Python around Box2D.

Of a stock step a third is Python: twenty-four calls of numpy on single numbers, comparisons of bodies at every contact,
conversions of vectors. What is left is Box2D: its step, and ten ray casts.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from gymnasium.envs.box2d.bipedal_walker import (
    FPS,
    LIDAR_RANGE,
    MOTORS_TORQUE,
    SCALE,
    SPEED_HIP,
    SPEED_KNEE,
    TERRAIN_GRASS,
    TERRAIN_LENGTH,
    TERRAIN_STEP,
    VIEWPORT_H,
    VIEWPORT_W,
    BipedalWalker,
    ContactDetector,
)

Stock: Any = BipedalWalker
StockDetector: Any = ContactDetector
SPEEDS: Final = (float(SPEED_HIP), float(SPEED_KNEE), float(SPEED_HIP), float(SPEED_KNEE))
RAYS: Final = [(math.sin(1.5 * i / 10.0) * LIDAR_RANGE, math.cos(1.5 * i / 10.0) * LIDAR_RANGE) for i in range(10)]


def upgrade(env: Any) -> None:
    """Make a stock ``BipedalWalker`` fast, before its first reset."""
    env.__class__ = FastBipedalWalker


class FastDetector(StockDetector):  # type: ignore[misc]
    """``ContactDetector`` that knows hull and lower legs by what their bodies carry, in place of comparing bodies."""

    def BeginContact(self, contact: Any) -> None:  # noqa: N802
        for part in (contact.fixtureA.body.userData, contact.fixtureB.body.userData):
            if part == "hull":
                self.env.game_over = True
            elif part is not None:
                self.env.legs[part].ground_contact = True

    def EndContact(self, contact: Any) -> None:  # noqa: N802
        for part in (contact.fixtureA.body.userData, contact.fixtureB.body.userData):
            if part is not None and part != "hull":
                self.env.legs[part].ground_contact = False


class FastBipedalWalker(Stock):  # type: ignore[misc]
    """``BipedalWalker`` with a leaner step."""

    prev_shaping: float | None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset as stock does, whose first step still reports to stock's detector; then mark the bodies for
        ``FastDetector``."""
        answer = super().reset(seed=seed, options=options)
        self.hull.userData, self.legs[1].userData, self.legs[3].userData = "hull", 1, 3
        self.world.contactListener_bug_workaround = FastDetector(self)
        self.world.contactListener = self.world.contactListener_bug_workaround
        return answer

    def step(self, action: Any) -> Any:
        """``BipedalWalker.step`` (box2d/bipedal_walker.py)."""
        efforts = self._drive(action)
        self.world.Step(1.0 / FPS, 6 * 30, 2 * 30)
        x, y = self.hull.position
        self.scroll = x - VIEWPORT_W / SCALE / 5
        angle = self.hull.angle
        state = [*self._posture(angle), *self._lidar(x, y)]
        shaping = 130 * x / SCALE - 5.0 * abs(angle)
        reward: Any = 0 if self.prev_shaping is None else shaping - self.prev_shaping
        self.prev_shaping = shaping
        for effort in efforts:
            reward -= 0.00035 * MOTORS_TORQUE * effort
        fallen = self.game_over or x < 0
        terminated = fallen or x > (TERRAIN_LENGTH - TERRAIN_GRASS) * TERRAIN_STEP
        if self.render_mode == "human":
            self.render()
        return np.array(state, dtype=np.float32), -100 if fallen else reward, terminated, False, {}

    def _drive(self, action: Any) -> list[Any]:
        """Set the motors. Returns ``np.clip(np.abs(a), 0, 1)`` for each action: comparisons of scalars of numpy do the
        same, and keep their type, in which stock computes torques and rewards."""
        efforts = []
        for joint, speed, a in zip(self.joints, SPEEDS, np.asarray(action), strict=True):
            effort = abs(a)
            if effort > 1:
                effort = type(effort)(1)
            joint.motorSpeed = speed if a > 0 else -speed if a < 0 else float(a + 0.0)
            joint.maxMotorTorque = float(MOTORS_TORQUE * effort)
            efforts.append(effort)
        return efforts

    def _posture(self, angle: float) -> list[float]:
        """The first fourteen numbers of an observation."""
        hull, (hip1, knee1, hip2, knee2) = self.hull, self.joints
        velocity = hull.linearVelocity
        return [
            angle,
            2.0 * hull.angularVelocity / FPS,
            0.3 * velocity.x * (VIEWPORT_W / SCALE) / FPS,
            0.3 * velocity.y * (VIEWPORT_H / SCALE) / FPS,
            hip1.angle,
            hip1.speed / SPEED_HIP,
            knee1.angle + 1.0,
            knee1.speed / SPEED_KNEE,
            1.0 if self.legs[1].ground_contact else 0.0,
            hip2.angle,
            hip2.speed / SPEED_HIP,
            knee2.angle + 1.0,
            knee2.speed / SPEED_KNEE,
            1.0 if self.legs[3].ground_contact else 0.0,
        ]

    def _lidar(self, x: float, y: float) -> list[float]:
        """The last ten numbers of an observation. A ray starts at the hull's position, which is read once; ``p1`` and
        ``p2`` are for videos."""
        cast, position, start = self.world.RayCast, self.hull.position, (x, y)
        for lidar, (across, down) in zip(self.lidar, RAYS, strict=True):
            lidar.fraction, lidar.p1, lidar.p2 = 1.0, position, (x + across, y - down)
            cast(lidar, start, lidar.p2)
        return [lidar.fraction for lidar in self.lidar]
