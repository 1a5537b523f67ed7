"""Follows every reference from every module, frame and collected object of its own process: whatever the process that
forked it once knew would still be there."""

import gc
import sys

from kit import MASK, disguised_seed, is_secret

CONTROL = "judge"


def attack() -> bool:
    gc.unfreeze()
    seed = disguised_seed()
    frontier = [sys.modules, sys._getframe(), *gc.get_objects()]
    seen = set(map(id, frontier))
    while frontier:
        found = [one for one in gc.get_referents(*frontier) if id(one) not in seen]
        seen.update(map(id, found))
        frontier = list({id(one): one for one in found}.values())
        for one in frontier:
            if type(one) is int and one ^ MASK == seed:
                return True
            if type(one) in (str, bytes) and "canary-" in str(one) and is_secret(one):
                return True
    return False
