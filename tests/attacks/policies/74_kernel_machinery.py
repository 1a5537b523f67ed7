"""Sets up the machinery that most exploits of the kernel go through: io_uring (whose calls no filter sees), BPF,
userfaultfd, performance counters."""

import ctypes

from kit import any_works, syscall

USER_MODE_ONLY = 1


def attack() -> bool:
    parameters = ctypes.create_string_buffer(128)
    array_map = (ctypes.c_uint32 * 32)(2, 4, 8, 1)
    counter = (ctypes.c_uint32 * 32)(1, 128)  # a software event that counts the CPU clock
    return any_works(
        lambda: syscall("io_uring_setup", 4, parameters) >= 0,
        lambda: syscall("bpf", 0, array_map, 72) >= 0,
        lambda: syscall("userfaultfd", USER_MODE_ONLY) >= 0,
        lambda: syscall("perf_event_open", counter, 0, -1, -1, 0) >= 0,
    )
