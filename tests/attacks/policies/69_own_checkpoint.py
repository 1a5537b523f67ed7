"""Rewrites its own checkpoint, so that the next episode plays other code than was submitted."""

import os

from kit import any_works

EPISODES = 2


def rewrite() -> None:
    os.chmod(".", 0o755)
    os.chmod("letter.json", 0o644)
    with open("letter.json", "w") as file:
        file.write("a letter")


def attack() -> bool:
    if open("letter.json").read() == "a letter":
        return True
    any_works(rewrite, lambda: os.rename("notes.json", "other.json"), lambda: os.unlink("other.json"))
    return False
