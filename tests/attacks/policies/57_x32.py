"""Makes a system call by the numbers of x32, a second table of 64-bit calls."""

import os

from kit import numbered

EXPECT = "crash"
CONTROL = "none: few kernels are built with x32, and on all others the call does not exist for anybody"
MACHINE = "x86_64"


def attack() -> bool:
    return numbered(0x4000_0000 | 39) == os.getpid()
