"""Passes a message to the next episode in the times of last access: the first episode reads a file of the
checkpoint, the second looks whether it has been read. A folder of a thousand files would carry a thousand bits."""

import os
import time

from kit import any_works

EPISODES = 2


def attack() -> bool:
    facts = os.stat("letter.json")
    if facts.st_mtime_ns + 10_000_000 < facts.st_atime_ns < time.time_ns():
        return True
    any_works(lambda: os.utime("letter.json", ns=(facts.st_mtime_ns, facts.st_mtime_ns)))  # old enough to be renewed
    time.sleep(0.05)
    with open("letter.json") as file:
        file.read()
    return False
