"""Creates files where files are usually created, to fill the disk or its table of inodes."""

import os

from kit import FACTS, any_works


def create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def attack() -> bool:
    folders = (".", "/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/scratch", "/store", "/policy", FACTS["shared"])
    named = [lambda folder=folder: create(f"{folder}/attack-{os.getpid()}") for folder in folders]
    nameless = [lambda folder=folder: os.open(folder, os.O_TMPFILE | os.O_RDWR) for folder in folders]
    return any_works(*named, *nameless)
