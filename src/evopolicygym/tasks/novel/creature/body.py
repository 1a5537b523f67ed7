"""Generated creatures: what they are rewarded for; and limbs, joints, motors and ground, which are drawn and written as
a MuJoCo model.

At levels 1 and 2 a body lives in a vertical plane, at levels 3 and 4 in space. Lengths are metres, angles radians."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
Triple = tuple[float, float, float]

TIMESTEP_S: Final = 0.01
GRAVITY: Final = 9.81
FLAT_LEVELS: Final = (1, 2)
LIMBS: Final = {1: (2,), 2: (2, 3), 3: (3, 4), 4: (4, 5, 6)}
JOINTS: Final = {1: (3, 4), 2: (5, 6), 3: (8,), 4: (12,)}
CLEARING: Final = 0.9  # around the start, without bumps
GROUND: Final = 14.0  # bumps lie this far from the start at most
SERVO_ERROR: Final = 0.4  # between command and angle, at which a servo gives its full strength
BUMPS: Final = 40
MOST_LEAN: Final = 1.2  # of a load
FALLEN: Final = 0.4  # share of a load's height above the torso, under which it has fallen
HORIZON: Final = 200
MOST_GAIN: Final = 0.25  # metres of new ground that one step can be rewarded for
EFFORT: Final = 0.02  # cost of a step with all motors at full command
ARRIVED: Final = 0.4  # metres from a place
ARRIVAL: Final = 0.5  # metres of new ground that an arrival counts for
DROP: Final = 1.0  # metres of ground that a fallen load costs: without a cost, lunging and falling would pay
TURN: Final = 1.0  # largest angle between the ways to two successive places in space


class Aim(StrEnum):
    """The task of a creature: far in one direction, from place to place, or far without dropping a load."""

    FAR = "far"
    PLACES = "places"
    LOAD = "load"


@dataclass(frozen=True)
class Segment:
    """A part of a limb, from its joint to ``end``. A motor's ``strength`` is its largest torque in N m; its ``sign`` is
    the direction in which a positive command turns the joint."""

    end: Triple
    radius: float
    density: float
    axis: Triple
    low: float
    high: float
    damping: float
    strength: float
    sign: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)

    @property
    def half_range(self) -> float:
        return 0.5 * (self.high - self.low)


@dataclass(frozen=True)
class Limb:
    """A chain of segments that starts at a point of the torso."""

    start: Triple
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Load:
    """A ball on a pole above the torso. The pole bends at its foot, against a spring that can just hold it."""

    height: float
    mass: float
    margin: float

    @property
    def stiffness(self) -> float:
        return self.margin * self.mass * GRAVITY * self.height

    @property
    def damping(self) -> float:
        return 0.5 * self.mass * self.height * math.sqrt((self.margin - 1.0) * GRAVITY * self.height)


@dataclass(frozen=True)
class CreatureBody:
    """A whole creature and the ground below it. ``half`` is half the torso's length, ``bumps`` are (x, y, radius,
    depth of the centre), ``gravity`` is tilted where the ground is a slope. ``motors`` has the joint of each motor.
    With ``servos`` a command is the angle that a joint goes to, without them its torque."""

    flat: bool
    half: float
    radius: float
    density: float
    limbs: tuple[Limb, ...]
    load: Load | None
    motors: tuple[int, ...]
    servos: bool
    friction: float
    bumps: tuple[tuple[float, float, float, float], ...]
    gravity: Triple

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, in the order of their joints."""
        return tuple(segment for limb in self.limbs for segment in limb.segments)

    def model(self) -> str:
        """Return the body as a MuJoCo model. Its parts touch the ground and pass through each other."""
        joints = iter(range(len(self.segments)))
        limbs = "".join(_limb_text(joints, limb) for limb in self.limbs)
        motors = "".join(_motor_text(joint, self.segments[joint], self.servos) for joint in self.motors)
        root = (
            '<joint type="slide" axis="1 0 0" armature="0"/><joint type="slide" axis="0 0 1" armature="0"/>'
            '<joint type="hinge" axis="0 1 0" armature="0"/>'
            if self.flat
            else "<freejoint/>"
        )
        return (
            f'<mujoco><compiler angle="radian"/><option timestep="{TIMESTEP_S}" gravity="{_text(self.gravity)}" '
            'integrator="implicitfast" iterations="20"/>'
            f'<default><joint armature="0.01"/><geom friction="{self.friction:.17g} 0.01 0.001" '
            'contype="1" conaffinity="2"/></default><worldbody>'
            '<geom name="ground" type="plane" size="50 50 1" contype="2" conaffinity="1"/>'
            f"{''.join(self._bumps())}"
            f'<body name="torso">{root}<geom type="capsule" size="{self.radius:.17g}" density="{self.density:.17g}" '
            f'fromto="{-self.half:.17g} 0 0 {self.half:.17g} 0 0"/>'
            f"{limbs}{self._load()}</body></worldbody><actuator>{motors}</actuator></mujoco>"
        )

    def _bumps(self) -> Iterator[str]:
        """In a plane, bumps are bars across it; in space, parts of balls."""
        across = f"{math.pi / 2:.17g} 0 0"
        shape = f'type="cylinder" euler="{across}"' if self.flat else 'type="sphere"'
        for x, y, radius, depth in self.bumps:
            size = f"{radius:.17g} 1" if self.flat else f"{radius:.17g}"
            yield f'<geom {shape} size="{size}" pos="{x:.17g} {y:.17g} {-depth:.17g}" contype="2" conaffinity="1"/>'

    def _load(self) -> str:
        if self.load is None:
            return ""
        spring = f'stiffness="{self.load.stiffness:.17g}" damping="{self.load.damping:.17g}"'
        bend = f'range="{-MOST_LEAN} {MOST_LEAN}" {spring}'
        sideways = "" if self.flat else f'<joint axis="1 0 0" {bend}/>'
        top = f"{self.load.height:.17g}"
        return (
            f'<body pos="0 0 {self.radius:.17g}"><joint axis="0 1 0" {bend}/>{sideways}'
            f'<geom type="capsule" size="0.015" density="100" fromto="0 0 0 0 0 {top}" contype="0" conaffinity="0"/>'
            f'<geom name="load" type="sphere" size="0.08" mass="{self.load.mass:.17g}" pos="0 0 {top}" contype="0" '
            'conaffinity="0"/></body>'
        )


def draw_body(generator: np.random.Generator, level: int, carries: bool) -> CreatureBody:
    """Draw a body of a level."""
    uniform, flat = generator.uniform, level in FLAT_LEVELS
    half, size = uniform(0.25, 0.5), uniform(0.25, 0.42)
    density = uniform(500.0, 1100.0)
    counts = _counts(generator, level)
    weight = GRAVITY * density * (half * 0.03 + 0.012 * size * sum(counts))  # a guess, for the strength of motors
    strength = uniform(0.7, 1.4) * weight * size * 2.0 / len(counts)
    starts = _flat_starts(generator, len(counts), half) if flat else _round_starts(generator, len(counts), half)
    limbs = []
    for count, (start, angle) in zip(counts, starts, strict=True):
        draw_segment = _flat_segment if flat else _round_segment
        parts = [draw_segment(generator, part, count, angle, size, density, strength) for part in range(count)]
        limbs.append(Limb(start, tuple(parts)))
    slope, downhill = uniform(0.0, 0.04), uniform(0.0, 2.0 * math.pi)
    tilt = (GRAVITY * slope * math.cos(downhill), 0.0 if flat else GRAVITY * slope * math.sin(downhill))
    return CreatureBody(
        flat=flat,
        half=half,
        radius=uniform(0.06, 0.11),
        density=density,
        limbs=tuple(limbs),
        load=Load(uniform(0.4, 0.7), uniform(0.2, 0.5), uniform(3.0, 6.0)) if carries else None,
        motors=tuple(int(joint) for joint in generator.permutation(sum(counts))),
        servos=bool(generator.random() < 0.5),
        friction=uniform(0.7, 1.4),
        bumps=tuple(_draw_bumps(generator, flat)),
        gravity=(*tilt, -GRAVITY),
    )


def _counts(generator: np.random.Generator, level: int) -> list[int]:
    """Draw how many segments each limb has."""
    limbs, joints = int(generator.choice(LIMBS[level])), int(generator.choice(JOINTS[level]))
    counts = [joints // limbs + (limb < joints % limbs) for limb in range(limbs)]
    return [int(count) for count in generator.permutation(counts)]


def _flat_starts(generator: np.random.Generator, limbs: int, half: float) -> Iterator[tuple[Triple, float]]:
    places = np.linspace(-0.9, 0.9, limbs) + generator.uniform(-0.15, 0.15, limbs)
    for place in places:
        yield (float(place) * half, 0.0, 0.0), 0.0


def _round_starts(generator: np.random.Generator, limbs: int, half: float) -> Iterator[tuple[Triple, float]]:
    """Limbs of a body in space start all around the torso, at drawn angles."""
    angles = 2.0 * math.pi * (np.arange(limbs) + 0.5) / limbs + generator.uniform(-0.25, 0.25, limbs)
    for angle in angles:
        yield (half * math.cos(angle), 0.06 * math.sin(angle), 0.0), float(angle)


def _flat_segment(
    generator: np.random.Generator, part: int, count: int, _: float, size: float, density: float, strength: float
) -> Segment:
    """Segments of a body in a plane hang down, at drawn slants."""
    slant = generator.uniform(-0.5, 0.5)
    length = size * generator.uniform(0.75, 1.25) * (1.0 if count < 3 else 0.75)
    end = (length * math.sin(slant), 0.0, -length * math.cos(slant))
    return _segment(generator, part, end, (0.0, 1.0, 0.0), density, strength)


def _round_segment(
    generator: np.random.Generator, part: int, count: int, angle: float, size: float, density: float, strength: float
) -> Segment:
    """The first segment of a limb in space goes outwards and swings about an upright axis or lifts; the others go
    down and lift."""
    length = size * generator.uniform(0.75, 1.25) * (1.0 if count < 3 else 0.75)
    steep = generator.uniform(0.1, 0.5) if part == 0 else generator.uniform(0.8, 1.3)
    outward, down = length * math.cos(steep), -length * math.sin(steep)
    end = (outward * math.cos(angle), outward * math.sin(angle), down)
    slant = generator.uniform(-0.3, 0.3)
    lift = (-math.sin(angle + slant), math.cos(angle + slant), 0.0)
    swing = (math.sin(slant) * math.cos(angle), math.sin(slant) * math.sin(angle), math.cos(slant))
    swings = part == 0 and generator.random() < 0.75
    return _segment(generator, part, end, swing if swings else lift, density, strength)


def _segment(
    generator: np.random.Generator, part: int, end: Triple, axis: Triple, density: float, strength: float
) -> Segment:
    uniform = generator.uniform
    return Segment(
        end=end,
        radius=uniform(0.035, 0.055),
        density=density,
        axis=axis,
        low=-uniform(0.4, 1.1),
        high=uniform(0.4, 1.1),
        damping=strength * uniform(0.02, 0.06),
        strength=strength * uniform(0.8, 1.2) * (1.0, 0.8, 0.6)[part],
        sign=float(generator.choice((-1.0, 1.0))),
    )


def _draw_bumps(generator: np.random.Generator, flat: bool) -> Iterator[tuple[float, float, float, float]]:
    for _ in range(BUMPS):
        distance, angle = generator.uniform(CLEARING, GROUND), generator.uniform(0.0, 2.0 * math.pi)
        radius, height = generator.uniform(0.15, 0.5), generator.uniform(0.01, 0.05)
        x, y = (math.copysign(distance, math.cos(angle)), 0.0) if flat else _polar(distance, angle)
        yield x, y, radius, radius - height


def _polar(distance: float, angle: float) -> tuple[float, float]:
    return distance * math.cos(angle), distance * math.sin(angle)


def _limb_text(joints: Iterator[int], limb: Limb) -> str:
    """Return a limb as nested bodies. Its joints get the next numbers."""
    opened, place = "", limb.start
    for segment in limb.segments:
        opened += (
            f'<body pos="{_text(place)}"><joint name="{next(joints)}" axis="{_text(segment.axis)}" '
            f'range="{segment.low:.17g} {segment.high:.17g}" damping="{segment.damping:.17g}"/>'
            f'<geom type="capsule" size="{segment.radius:.17g}" density="{segment.density:.17g}" '
            f'fromto="0 0 0 {_text(segment.end)}"/>'
        )
        place = segment.end
    return opened + "</body>" * len(limb.segments)


def _motor_text(joint: int, segment: Segment, servos: bool) -> str:
    """Return a motor that takes commands from -1 to 1: to the ends of the joint's range, or as a share of strength."""
    limits = f'joint="{joint}" ctrlrange="-1 1" forcerange="{-segment.strength:.17g} {segment.strength:.17g}"'
    if not servos:
        return f'<general {limits} gainprm="{segment.sign * segment.strength:.17g}"/>'
    stiffness = segment.strength / SERVO_ERROR
    gain, bias = segment.sign * stiffness * segment.half_range, stiffness * segment.middle
    return f'<general {limits} gainprm="{gain:.17g}" biastype="affine" biasprm="{bias:.17g} {-stiffness:.17g} 0"/>'


def _text(values: Triple) -> str:
    return " ".join(f"{value:.17g}" for value in values)
