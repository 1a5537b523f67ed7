"""The rewards of generated creatures."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

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
