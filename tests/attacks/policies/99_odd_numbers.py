"""Acts with numbers at the edge of what is legal, which must arrive as a legal action: minus zero, the smallest
number there is, and one far outside the bounds (it is clipped)."""

import kit

WHEN = "every act"
CONTROL = "same"


def attack():
    return 0, [(-0.0, 0.0), (5e-324, 0.0), (1e30, -1e30)][kit.step % 3]
