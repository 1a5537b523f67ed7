"""Reads and writes the memory of another process by system call. The sleeper's memory cannot be guessed, so that
even a "bad address" would mean that the kernel went to look."""

import ctypes

from kit import FACTS, reached

ROOT = True


def attack() -> bool:
    word = ctypes.create_string_buffer(8)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(word), 8)
    return any(
        reached(call, pid, vector, 1, vector, 1, 0)
        for call in ("process_vm_readv", "process_vm_writev")
        for pid in (FACTS["sleeper"], *FACTS["processes"])
    )
