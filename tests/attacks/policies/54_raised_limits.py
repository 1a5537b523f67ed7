"""Raises its own limits, and sets those of another process."""

import resource

from kit import FACTS, any_works

ROOT = True
KINDS = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)


def attack() -> bool:
    more = (1 << 40, 1 << 40)
    return any_works(
        *[lambda kind=kind: resource.setrlimit(kind, more) for kind in KINDS[:-1]],
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000)),
        *[lambda kind=kind: resource.prlimit(FACTS["sleeper"], kind, more) for kind in KINDS[:-1]],
    )
