"""Takes memory until there is no more: more than its limit would push the machine into swap and others out of it."""

import mmap

CONTROL = "same"
PIECE, LIMIT = 16 << 20, 512 << 20


def attack() -> bool:
    pieces = []
    try:
        while len(pieces) * PIECE < 2 * LIMIT:
            pieces.append(mmap.mmap(-1, PIECE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except (MemoryError, OSError):
        pass
    return len(pieces) * PIECE > LIMIT
