"""comparable_id and bit_id: what must be equal before two scores share a table, or two returns are compared bitwise."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from evopolicygym.record_checks import fingerprint_id
from evopolicygym.tasks.conditions import Variant
from evopolicygym.tasks.disguise import DISGUISE_VERSION
from evopolicygym.tasks.pins import distributions, installed, pygame_provider, source_hashes
from evopolicygym.tasks.spaces import json_safe
from evopolicygym.tasks.task import Task

PROTOCOL: Final = "1"
MATH_FEATURES: Final = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "asimd", "sve", "fp")


@dataclass(frozen=True)
class Ids:
    """The two ids of a task on this machine."""

    comparable_id: str
    bit_id: str


def comparable_facts(task: Task, splits_id: str, **protocol: Any) -> dict[str, Any]:
    """Return everything that can change a score on one kind of machine. ``protocol`` adds what a run fixes, such as its
    budget. ``env_options`` and ``sources`` appear only if a task has any; most have neither. ``variant`` appears only
    if it is not the plain one, ``world`` only for generated tasks."""
    optional = {
        "env_options": json_safe(task.env_options),
        "sources": source_hashes(task.env_id, task.requires),
        "variant": variant_facts(task),
        "world": task.view.world_id(),
    }
    return {
        "protocol": PROTOCOL,
        "task": task.id,
        "env": task.env_id,
        "task_version": task.version,
        "horizon": task.horizon,
        "failure_return": task.failure_return.value,
        "limits": asdict(task.limits),
        "packages": {name: installed(name) for name in distributions(task.requires)},
        "pygame": pygame_provider() if "pygame" in task.requires else "unused",
        "splits": splits_id,
        **{name: value for name, value in optional.items() if value},
        **protocol,
    }


def variant_facts(task: Task) -> dict[str, str]:
    """Return what names a variant without revealing it; nothing for the plain one."""
    view = task.view
    if view.variant is Variant.PLAIN:
        return {}
    facts = {"name": view.variant, "key": view.key_id()}
    if view.variant is Variant.SHIFTED:
        facts["shift"] = fingerprint_id("s", {"table": [asdict(parameter) for parameter in task.shift]})
    if view.variant is Variant.DISGUISED:
        facts["disguise"] = fingerprint_id("d", {"version": DISGUISE_VERSION, "kinds": task.disguise})
    return facts


def machine_facts() -> dict[str, Any]:
    """Return what can change the last bits of a float: instruction set, libm, and the Python that sums."""
    libc, version = platform.libc_ver()
    return {
        "machine": platform.machine(),
        "cpu_features": list(_cpu_features()),
        "libc": f"{libc} {version}",
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def ids(task: Task, splits_id: str, **protocol: Any) -> Ids:
    facts = comparable_facts(task, splits_id, **protocol)
    return Ids(comparable_id(facts), fingerprint_id("b", {**facts, "on": machine_facts()}))


def comparable_id(facts: dict[str, Any]) -> str:
    """Return the id of recorded facts. A change of any fact changes it."""
    return fingerprint_id("c", facts)


@cache
def _cpu_features() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return tuple(sorted(flag for flag in flags if flag.startswith(MATH_FEATURES)))
