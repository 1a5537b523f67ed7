"""Check what this machine can do, by using it: isolation, pinned versions, imports, simulators, rendering."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from evopolicygym.errors import IsolationUnavailable, UserError
from evopolicygym.fast.catalogue import CATALOGUE, why_stock
from evopolicygym.sandbox import probes
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.levels import agent_isolation, best_level
from evopolicygym.sandbox.agent.visible_files import Exposure, exposure
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.probes import Probe
from evopolicygym.tasks import pins, simulator
from evopolicygym.tasks.ids import machine_facts
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.simulator import HEADLESS
from evopolicygym.tasks.task import Task

DRAWN: Final = ("core16/reacher", "core16/car-racing", "core16/door-key", "core16/parking")
ALLOWED: Final = NetworkAccess.ALLOWED  # what agents get by default
EXAMPLES: Final = 5
IMPORT_TIMEOUT_S: Final = 120.0  # for a group of packages that takes seconds: a cold disk is slow
IMPORTED: Final = "imported "  # marks our lines among those that packages print
IMPORTER: Final = """
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        error = ""
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
    print("\\nimported " + json.dumps([name, error]), flush=True)
"""
DRAW: Final = "from evopolicygym.execution.machine_checks import draw; draw({!r})"


def check_all() -> dict[str, list[Probe]]:
    """Run every check, and return the results by section."""
    return {
        "isolation": probes.probe_isolation(),
        "agents": list(_agents()),
        "versions": list(_versions()),
        "imports": list(_imports()),
        "simulators": list(_simulators()),
        "rendering": list(_rendering()),
    }


def policy_level(isolation: Sequence[Probe]) -> Level | None:
    """Return the best isolation level of policies that works; None if there is none."""
    return next((level for level in (Level.A, Level.B) if Probe(f"level {level}", True) in isolation), None)


def draw(task_id: str) -> None:
    """Render one frame. Call it in a separate process: a broken OpenGL can crash it."""
    env = simulator.make(core16()[task_id], video=True)
    simulator.reset(env, 0)
    frame = env.render()
    if frame is None or frame.std() == 0:
        sys.exit("the frame is blank")


def _agents() -> Iterator[Probe]:
    """Try each isolation level of agents by starting a program in it, and list the simulators that agents can see."""
    for level in (AgentLevel.A, AgentLevel.B):
        try:
            best_level((level,))
            residues = agent_isolation(level, ALLOWED).residues
            yield Probe(f"agent level {level}", True, f"leaves open: {'; '.join(residues)}")
        except IsolationUnavailable as error:
            yield Probe(f"agent level {level}", False, error.reasons[level])
    yield from _exposure(exposure())


def _exposure(packages: Exposure) -> Iterator[Probe]:
    names = ", ".join(packages.hidden_simulators[:EXAMPLES]) or "none"
    more = len(packages.hidden_simulators) - EXAMPLES
    names += f" and {more} more" if more > 0 else ""
    count = len(packages.hidden)
    places = f"{count} place{'' if count == 1 else 's'}"
    yield Probe("hidden from agents", True, f"{places} with packages; simulators there: {names}")
    remedy = "uninstall them, or move them out of /usr: every agent on this machine can simulate off budget"
    seen = [*packages.seen, *(f"{tree}: too many folders to search" for tree in packages.unsearched)]
    yield Probe("simulators that agents see", not seen, ", ".join(seen) or "none", remedy if seen else "")


def system_facts() -> dict[str, object]:
    """Describe the machine: kernel, user, cores, load, CPU and libc."""
    cores = len(os.sched_getaffinity(0))
    user = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    load = os.getloadavg()[0]
    return {"kernel": platform.release(), "user": user, "cores": cores, "load": round(load, 2), **machine_facts()}


def _versions() -> Iterator[Probe]:
    complaints = pins.version_mismatches()
    for complaint in complaints:
        mismatch, _, remedy = complaint.rpartition(": ")
        yield Probe("pinned version", False, mismatch, remedy)
    if not complaints:
        yield Probe(f"all {len(pins.pins())} pinned packages", True, f"drawing by {pins.pygame_provider()}")
    yield Probe("Ray", True, pins.installed("ray") or "not installed; only --engine ray needs it")


def _imports() -> Iterator[Probe]:
    """Import every package that a run needs, in separate processes, because a broken package may crash its process.
    Simulators are imported apart from the rest: they change what is imported after them."""
    needed = {name: pins.module_of(name) for name in pins.requirements()}
    behind = {name for task in core16().values() for name in pins.distributions(task.requires)}
    groups = [[name for name in needed if (name in behind) is simulates] for simulates in (False, True)]
    errors: dict[str, str] = {}
    for group in groups:
        errors |= import_errors([needed[name] for name in group])
    broken = {name: errors[module] for name, module in needed.items() if errors[module]}
    for name, error in broken.items():
        yield Probe(f"import {needed[name]}", False, error, pins.remedy(name))
    if not broken:
        yield Probe(f"all {len(needed)} required packages", True)


def import_errors(modules: Sequence[str]) -> dict[str, str]:
    """Return, for each module, what its import raised; an empty text if it succeeded."""
    errors: dict[str, str] = {}
    while untried := [module for module in modules if module not in errors]:
        reported, ending = _try_imports(untried)
        errors |= reported
        if unreported := [module for module in untried if module not in reported]:
            errors[unreported[0]] = ending
    return errors


def _try_imports(modules: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return what a child process reported before it ended, and how it ended."""
    command = [sys.executable, "-P", "-c", IMPORTER, *modules]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **HEADLESS},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=IMPORT_TIMEOUT_S,
        )
        output, ending = done.stdout, f"its process ended with exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"the import did not end within {IMPORT_TIMEOUT_S:.0f} s"
    lines = [line.removeprefix(IMPORTED) for line in output.splitlines() if line.startswith(IMPORTED)]
    return dict(json.loads(line) for line in lines), ending


def _simulators() -> Iterator[Probe]:
    for task in core16().values():
        try:
            env = simulator.make(task)
            simulator.reset(env, 0)
            env.step(env.action_space.sample())
            env.close()
        except UserError as error:
            yield Probe(task.id, False, error.message, error.remedy)
        except Exception as error:
            yield Probe(task.id, False, f"{type(error).__name__}: {error}", "reinstall the pinned versions")
        else:
            yield Probe(task.id, True, f"{task.env_id} {_why_stock(task)}")


def _why_stock(task: Task) -> str:
    reason = why_stock(task.env_id) if task.env_id in CATALOGUE else None
    return f"(stock: {reason})" if reason else ""


def _rendering() -> Iterator[Probe]:
    for task_id in DRAWN:
        drawn = subprocess.run([sys.executable, "-P", "-c", DRAW.format(task_id)], capture_output=True, text=True)
        detail = drawn.stderr.strip().splitlines()[-1] if drawn.returncode and drawn.stderr.strip() else ""
        remedy = "" if drawn.returncode == 0 else simulator.RENDERING_REMEDY
        yield Probe(f"frames of {task_id}", drawn.returncode == 0, detail, remedy)
