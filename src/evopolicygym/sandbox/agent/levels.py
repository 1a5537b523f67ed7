"""Which level holds on this machine, found out by doing it, and what each leaves open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.errors import Fault, IsolationUnavailable, UserError
from evopolicygym.sandbox import landlock
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, NetworkAccess
from evopolicygym.sandbox.agent.launch import launch
from evopolicygym.sandbox.agent.python import make_python
from evopolicygym.sandbox.probes import landlock_remedy, namespace_remedy
from evopolicygym.sandbox.scratch import scratch

MEANING: Final = {
    AgentLevel.A: "user, mount, pid, network and IPC namespaces, private root, seccomp, limits",
    AgentLevel.B: "Landlock, seccomp, limits; no namespaces",
    AgentLevel.NONE: "a process with a clean environment: it can read and change whatever the judge can",
}
REHEARSAL: Final = ("/bin/sh", "-c", "exit 7")
REHEARSED: Final = 7
REHEARSAL_S: Final = 60.0


@dataclass(frozen=True)
class AgentIsolation:
    """For the record: what was in force, and what was not stopped."""

    level: AgentLevel
    network: NetworkAccess
    landlock_abi: int
    own_user: bool
    residues: tuple[str, ...]


def best_level(wanted: tuple[AgentLevel, ...] = (AgentLevel.A, AgentLevel.B)) -> AgentLevel:
    """The first of ``wanted`` at which a program can be confined here, with everything tried that each start tries.
    Nothing below what was asked for is ever used."""
    reasons: dict[str, str] = {}
    for level in wanted:
        problem = _rehearse(level)
        if not problem:
            return level
        reasons[level] = problem
    raise IsolationUnavailable(reasons, "agents", "--agent-isolation none")


def standing(level: AgentLevel, network: NetworkAccess) -> AgentIsolation:
    abi, own_user = landlock.abi(), os.geteuid() == 0 and level is not AgentLevel.NONE
    return AgentIsolation(level, network, abi, own_user, residues(level, network, abi, own_user))


def residues(level: AgentLevel, network: NetworkAccess, abi: int, own_user: bool) -> tuple[str, ...]:
    """In words, for the record and for `docs/security.md`."""
    if level is AgentLevel.NONE:
        return ("nothing is stopped: files, processes and network are the judge's",)
    always = (
        "disk and memory are not bounded, processes are",
        "kernel exploits",
        "the load of the machine can be measured",
    )
    opened = ("off-budget simulation: the network is open, packages can be downloaded",)
    listed = ("what the model's hosts fetch for it (web tools of the model) is not seen",)
    scoped = ("abstract sockets of the host can be connected to (Landlock before ABI 6)",)
    return (
        *(opened if network is NetworkAccess.OPEN else ()),
        *(listed if network is NetworkAccess.ALLOWED else ()),
        *(scoped if network is NetworkAccess.OPEN and abi < 6 else ()),
        *(
            _without_namespaces(network, abi, own_user)
            if level is AgentLevel.B
            else ("names of host folders on the way to its own",)
        ),
        *always,
    )


def _without_namespaces(network: NetworkAccess, abi: int, own_user: bool) -> tuple[str, ...]:
    """Each with the condition under which it is left."""
    closed = network is not NetworkAccess.OPEN
    found = (
        (True, "existence, size and times of host paths (stat)"),
        (True, "names of packages beside numpy can be listed, not read"),
        (not own_user, "mode, owner and times of the user's own files can be changed, not their content"),
        (not own_user, "the agent's copy of its feedback can be changed by it; the judge's cannot"),
        (not own_user and abi < 6, "processes of the same user, the judge among them, can be signalled (before ABI 6)"),
        (closed and abi >= 4, "the granted TCP ports (door, proxy) can be connected to at any address, not only here"),
        (closed and abi < 4, "any TCP port can be connected to: the list of hosts is not enforced (before ABI 4)"),
        (abi < 2, "files cannot be moved between folders (before ABI 2)"),
    )
    return tuple(text for holds, text in found if holds)


def _rehearse(level: AgentLevel) -> str:
    """Why ``level`` does not hold, with what to do about it; empty if it does."""
    with scratch("evopolicygym-agent-") as place:
        try:
            code = _run(level, place)
        except (Fault, UserError, OSError) as error:
            remedy = namespace_remedy() if level is AgentLevel.A else landlock_remedy()
            return f"{error} ({remedy})" if remedy else str(error)
    return "" if code == REHEARSED else f"a program that should exit with {REHEARSED} exited with {code}"


def _run(level: AgentLevel, place: Path) -> int | None:
    workspace, home, temporary = (place / "run" / name for name in ("workspace", "home", "tmp"))
    for folder in (workspace, home, temporary):
        folder.mkdir(parents=True)
    cell = AgentSandbox(workspace, home, temporary, make_python(place / "run" / "python"))
    null = os.open(os.devnull, os.O_RDWR)
    try:
        with launch(REHEARSAL, cell, level, null, null, null) as process:
            return process.wait(REHEARSAL_S)
    finally:
        os.close(null)
