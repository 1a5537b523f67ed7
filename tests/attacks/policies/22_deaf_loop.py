"""Computes for ever inside one C call, with every signal blocked: no handler and no switch of threads can get in."""

import signal

EXPECT = "timeout"
CONTROL = "same"


def attack() -> bool:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    return pow(3, 1 << 26, (1 << 20_000_003) - 1) == 0
