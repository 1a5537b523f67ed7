"""Changes settings of its own process that the jail relies on: to die with its parent, not to be dumped, to have its
memory at random places, to be no debugger's child."""

from kit import any_works, syscall

SET_PDEATHSIG, SET_DUMPABLE, SET_NAME, NO_RANDOMIZE, TRACEME = 1, 4, 15, 0x0040000, 0


def attack() -> bool:
    return any_works(
        lambda: syscall("prctl", SET_PDEATHSIG, 0, 0, 0, 0) == 0,
        lambda: syscall("prctl", SET_DUMPABLE, 1, 0, 0, 0) == 0,
        lambda: syscall("prctl", SET_NAME, b"judge", 0, 0, 0) == 0,
        lambda: syscall("personality", NO_RANDOMIZE) >= 0,
        lambda: syscall("ptrace", TRACEME, 0, 0, 0) == 0,
    )
