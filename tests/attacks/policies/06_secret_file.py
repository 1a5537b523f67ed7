"""Opens a file of the judge whose path it knows, by every way that leads there: absolute, relative, through /proc,
through a folder it has moved into, through a descriptor without rights that is opened again."""

import os

from kit import FACTS, any_works, is_secret, reads_secret, syscall

FOLDER, NAME = os.path.split(FACTS["secret"])


def by_moving_there() -> bool:
    home = os.getcwd()
    try:
        os.chdir(FOLDER)
        return reads_secret(NAME)
    finally:
        os.chdir(home)


def by_a_descriptor() -> bool:
    handle = os.open(FACTS["secret"], os.O_PATH)
    try:
        return reads_secret(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def beneath_a_folder() -> bool:
    folder = os.open(FOLDER, os.O_PATH)
    file = os.open(NAME, os.O_RDONLY, dir_fd=folder)
    return is_secret(os.read(file, 100))


def by_openat2() -> bool:
    file = syscall("openat2", -100, FACTS["secret"].encode(), (0).to_bytes(24, "little"), 24)
    return file >= 0 and is_secret(os.read(file, 100))


def attack() -> bool:
    secret = FACTS["secret"]
    paths = [secret, "../" * 30 + secret, f"/proc/self/root{secret}", f"/proc/self/cwd/{'../' * 30}{secret}"]
    paths += [f"/proc/{pid}/root{secret}" for pid in (1, os.getppid(), *FACTS["processes"])]
    plain = [lambda path=path: reads_secret(path) for path in paths]
    return any_works(*plain, by_moving_there, by_a_descriptor, beneath_a_folder, by_openat2)
