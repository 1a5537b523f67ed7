"""Walks all it can list from the root, for anything that is not meant for policies: simulators, the judge, homes."""

import os

WHEN = "init"
STRANGERS = {"gymnasium", "evopolicygym", "mujoco", "minigrid", "passwd", "shadow", ".ssh", "checkpoints"}


def attack() -> bool:
    places = ["/"]
    for depth in range(7):
        deeper = []
        for place in places:
            try:
                entries = list(os.scandir(place))
            except OSError:
                continue
            if found := STRANGERS & {entry.name for entry in entries}:
                print(place, found)
                return True
            deeper += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != "proc"]
        places = deeper[:2000]
    return False
