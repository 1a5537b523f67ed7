"""The texts about a generated creature. Their first sentences are the brief ones and give no part of the body away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evopolicygym.tasks.novel.creature.body import (
    ARRIVAL,
    ARRIVED,
    DROP,
    EFFORT,
    FALLEN,
    MOST_GAIN,
    MOST_LEAN,
    SERVO_ERROR,
    TIMESTEP_S,
    TURN,
    Aim,
    CreatureBody,
)

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.creature.world import CreatureWorld


def describe_creature(world: CreatureWorld) -> dict[str, Any]:
    """Return the texts of a world."""
    text = _CreatureText(world)
    return {
        "title": "A creature with motors and sensors",
        "requires": ("mujoco",),
        "objective": "Move the creature so that the sum of its rewards is as high as possible.",
        "observation_notes": f"Readings of the creature's sensors. {text.observation()}",
        "action_notes": f"Commands to the creature's motors. {text.action()}",
        "reward": f"Progress is rewarded, effort costs a little, and a higher return is better. {text.reward()}",
        "termination": text.termination(),
        "start": (
            "At the origin, with all joints near 0 and the lowest part close to the ground. Angles and velocities "
            f"deviate from that by a normal random number times {world.spread:.6g}."
        ),
        "dynamics": "\n".join(f"- {line}" for line in text.dynamics()),
    }


class _CreatureText:
    def __init__(self, world: CreatureWorld) -> None:
        self._world, self._body = world, world.body

    def observation(self) -> str:
        world, names = self._world, state_names(self._world)
        readings = "; ".join(
            f"{number}: {gain:g} * {names[entry]} {offset:+.6g}"
            for number, (entry, gain, offset) in enumerate(zip(world.sensors, world.gains, world.offsets, strict=True))
        )
        return f"The entries, by index, are {readings}."

    def action(self) -> str:
        body = self._body
        if body.servos:
            meaning = f"the angle that joints go to, with full strength from an error of {SERVO_ERROR} rad on"
            parts = [
                f"{number}: joint {joint}, {part.middle:.6g} {part.sign * part.half_range:+.6g} * action"
                for number, joint in enumerate(body.motors)
                for part in [body.segments[joint]]
            ]
        else:
            meaning = "the torque at joints, in N m"
            parts = [
                f"{number}: joint {joint}, {part.sign * part.strength:.6g} * action"
                for number, joint in enumerate(body.motors)
                for part in [body.segments[joint]]
            ]
        return f"They set {meaning}: {'; '.join(parts)}. Positive angles turn by the right-hand rule about the axis."

    def reward(self) -> str:
        world = self._world
        effort = f"A step costs {EFFORT} times the mean square of the actions."
        gained = f"Metres are counted that were not gained before, at most {MOST_GAIN} in a step"
        if world.aim is not Aim.PLACES:
            x, y = math.cos(world.heading), math.sin(world.heading)
            way = f"in the direction x = {x:.6g}" + ("" if self._body.flat else f", y = {y:.6g}")
            drop = f" A fallen load costs {DROP * world.scale:.6g}." if world.aim is Aim.LOAD else ""
            return f"Each metre that the torso comes {way} gives {world.scale:.6g}. {gained}. {effort}{drop}"
        near, far = world.places
        turned = "in either direction" if self._body.flat else f"in a direction that differs by at most {TURN} rad"
        first = "" if self._body.flat else f" (at first from {world.heading:.6g} rad, counted from x to y)"
        return (
            f"Each metre that the torso comes closer to a place gives {world.scale:.6g}. {gained} on the way to a "
            f"place. Within {ARRIVED} m of it, {ARRIVAL} m more are counted, and the next place is drawn: {near:.6g} "
            f"to {far:.6g} m away, {turned}{first}. {effort}"
        )

    def termination(self) -> str:
        load, horizon = self._body.load, self._world.horizon
        if load is None:
            return f"An episode has {horizon} steps."
        return (
            f"After {horizon} steps, or earlier when something falls. The load has fallen when it is less than "
            f"{FALLEN * load.height:.6g} m above the middle of the torso."
        )

    def dynamics(self) -> Iterator[str]:
        body, world = self._body, self._world
        plane = "It moves in the plane of x and z only." if body.flat else "It moves freely in space."
        yield (
            f"MuJoCo simulates a body in {world.frames} steps of {TIMESTEP_S} s for each action; z is up. {plane} "
            "Parts are capsules, which touch the ground and pass through each other."
        )
        yield (
            f"Torso: along x, half length {body.half:.6g} m, radius {body.radius:.6g} m, density {body.density:.6g} "
            f"kg/m^3. Friction with the ground: {body.friction:.6g}. Gravity: {_numbers(body.gravity)} m/s^2."
        )
        yield from self._limbs()
        if (load := body.load) is not None:
            yield (
                f"Load: a ball of {load.mass:.6g} kg on a pole of {load.height:.6g} m above the torso's middle. The "
                f"pole bends at its foot by at most {MOST_LEAN} rad{'' if body.flat else ' about y and about x'}, with "
                f"stiffness {load.stiffness:.6g} N m/rad and damping {load.damping:.6g} N m s/rad."
            )
        yield _bumps(body)

    def _limbs(self) -> Iterator[str]:
        joint = 0
        for limb in self._body.limbs:
            parts = []
            for part in limb.segments:
                parts.append(
                    f"joint {joint} about {_numbers(part.axis)} from {part.low:.6g} to {part.high:.6g} rad, damping "
                    f"{part.damping:.6g}, strength {part.strength:.6g} N m, then a segment to {_numbers(part.end)} of "
                    f"radius {part.radius:.6g} m"
                )
                joint += 1
            yield f"Limb at {_numbers(limb.start)} of the torso: {'; '.join(parts)}."


def state_names(world: CreatureWorld) -> list[str]:
    """Return what the entries of the state are, in their order."""
    body = world.body
    hinges = [f"of joint {joint}" for joint in range(len(body.segments))]
    if body.load is not None:
        hinges += ["of the load about y"] if body.flat else ["of the load about y", "of the load about x"]
    if body.flat:
        root, moved = ["x", "height", "pitch about y"], ["velocity along x", "velocity along z", "pitch rate"]
    else:
        root = ["x", "y", "height", *(f"quaternion {name}" for name in "wxyz")]
        moved = [f"velocity along {name}" for name in "xyz"] + [f"angular velocity about own {name}" for name in "xyz"]
    names = [*root, *(f"angle {hinge}" for hinge in hinges), *moved, *(f"velocity {hinge}" for hinge in hinges)]
    if world.aim is Aim.PLACES:
        to_place = "component of the way to the place, of length 1 at most"
        names += [f"x {to_place}"] if body.flat else [f"forward {to_place}", f"left {to_place}"]
    return names


def _bumps(body: CreatureBody) -> str:
    if body.flat:
        listed = "; ".join(f"{x:.4g}, {radius:.4g}, {depth:.4g}" for x, _, radius, depth in body.bumps)
        return f"Bumps, bars across the plane, as x, radius, depth of the axis below the ground: {listed}."
    listed = "; ".join(f"{x:.4g}, {y:.4g}, {radius:.4g}, {depth:.4g}" for x, y, radius, depth in body.bumps)
    return f"Bumps, parts of balls, as x, y, radius, depth of the centre below the ground: {listed}."


def _numbers(values: Any) -> str:
    return "[" + ", ".join(f"{float(value):.6g}" for value in values) + "]"
