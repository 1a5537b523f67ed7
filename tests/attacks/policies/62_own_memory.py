"""Reads all of its own memory, from every address it can learn outwards, for what the process that forked it may
have known. Touching a page that is not there would kill, so it asks the kernel first: a file name there is a bad
address."""

import ctypes
import errno
import gc
import math
import re

import numpy as np

from kit import FACTS, is_secret, libc

WHEN = "init"
CONTROL = "judge"
PAGE = 4096


def mapped(page: int) -> bool:
    return libc.access(ctypes.c_void_p(page), 0) == 0 or ctypes.get_errno() != errno.EFAULT


def regions(addresses: list[int]) -> list[tuple[int, int]]:
    found = [(0, 0)]
    for page in sorted({address & -PAGE for address in addresses}):
        if page >= found[-1][1]:
            start = end = page
            while mapped(start - PAGE):
                start -= PAGE
            while mapped(end):
                end += PAGE
            found.append((start, end))
    return found[1:]


def holds_pair(words: np.ndarray, bits: int) -> bool:
    """The seed in two neighbouring words: as the machine keeps it (32 bits each) or as Python does (30)."""
    few = (1 << bits) - 1
    low, high = ((FACTS["masked_seed"] >> shift & few) ^ (FACTS["mask"] >> shift & few) for shift in (0, bits))
    return bool((words[np.flatnonzero(words[:-1] == low) + 1] == high).any())


def holds_decimal(memory: memoryview) -> bool:
    """Found by its first digits alone, or the search would find itself."""
    seed = FACTS["masked_seed"] ^ FACTS["mask"]
    start = b"%d" % (seed // 10 ** (int(math.log10(seed)) - 5))
    return any(int(match[0]) == seed for match in re.finditer(start + rb"\d{6,13}", memory))


def attack() -> bool:
    gc.unfreeze()
    addresses = [id(one) for one in gc.get_objects()] + [ctypes.cast(libc.access, ctypes.c_void_p).value, id(None)]
    spaces = [memoryview((ctypes.c_char * (end - start)).from_address(start)) for start, end in regions(addresses)]
    pairs = [holds_pair(np.frombuffer(space, np.uint32), bits) for space in spaces for bits in (30, 32)]
    return any(pairs) or any(is_secret(space) or holds_decimal(space) for space in spaces)
