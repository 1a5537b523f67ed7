"""Find by trying which isolation level of agents works on this machine, and describe what each level does not stop."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.errors import Fault, IsolationUnavailable, UserError
from evopolicygym.sandbox import landlock
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, NetworkAccess, make_python
from evopolicygym.sandbox.agent.launch import launch
from evopolicygym.sandbox.probes import landlock_remedy, namespace_remedy

MEANING: Final = {
    AgentLevel.A: "user, mount, pid, network and IPC namespaces, private root, seccomp, limits",
    AgentLevel.B: "Landlock, seccomp, limits; no namespaces",
    AgentLevel.NONE: "a process with a clean environment: it can read and change whatever the judge can",
}
TEST_EXIT_CODE: Final = 7
TEST_PROGRAM: Final = ("/bin/sh", "-c", f"exit {TEST_EXIT_CODE}")
TEST_PROGRAM_S: Final = 60.0
REMOVE_AT_END: Final = 'read _; chmod -R u+rwX "$0"; rm -rf "$0"'


@dataclass(frozen=True)
class AgentIsolation:
    """For the record: what was in force, and what it did not stop."""

    level: AgentLevel
    network: NetworkAccess
    landlock_abi: int
    own_user: bool
    residues: tuple[str, ...]


def best_level(wanted: tuple[AgentLevel, ...] = (AgentLevel.A, AgentLevel.B)) -> AgentLevel:
    """Return the first of ``wanted`` at which a program can be confined here, with the same self-tests as at every
    start. A level that is not in ``wanted`` is never used."""
    reasons: dict[str, str] = {}
    for level in wanted:
        problem = _test_level(level)
        if not problem:
            return level
        reasons[level] = problem
    raise IsolationUnavailable(reasons, "agents", "--agent-isolation none")


def agent_isolation(level: AgentLevel, network: NetworkAccess) -> AgentIsolation:
    abi, own_user = landlock.abi(), os.geteuid() == 0 and level is not AgentLevel.NONE
    return AgentIsolation(level, network, abi, own_user, residues(level, network, abi, own_user))


def residues(level: AgentLevel, network: NetworkAccess, abi: int, own_user: bool) -> tuple[str, ...]:
    """Describe what is not stopped, for the record and for `docs/security.md`."""
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
            _residues_of_b(network, abi, own_user)
            if level is AgentLevel.B
            else ("names of host folders on the way to its own",)
        ),
        *always,
    )


def _residues_of_b(network: NetworkAccess, abi: int, own_user: bool) -> tuple[str, ...]:
    """Return the residues of level B, each with the condition under which it applies."""
    closed = network is not NetworkAccess.OPEN
    residues_if = (
        (True, "existence, size and times of host paths (stat)"),
        (True, "names of packages beside numpy can be listed, not read"),
        (not own_user, "mode, owner and times of the user's own files can be changed, not their content"),
        (not own_user, "the agent's copy of its feedback can be changed by it; the judge's cannot"),
        (not own_user and abi < 6, "processes of the same user, the judge among them, can be signalled (before ABI 6)"),
        (closed and abi >= 4, "the granted TCP ports (API, proxy) can be connected to at any address, not only here"),
        (closed and abi < 4, "any TCP port can be connected to: the list of hosts is not enforced (before ABI 4)"),
        (abi < 2, "files cannot be moved between folders (before ABI 2)"),
    )
    return tuple(text for applies, text in residues_if if applies)


def _test_level(level: AgentLevel) -> str:
    """Return why ``level`` does not work, with the remedy; empty if it works."""
    with scratch_folder("evopolicygym-agent-") as folder:
        try:
            code = _run(level, folder)
        except (Fault, UserError, OSError) as error:
            remedy = namespace_remedy() if level is AgentLevel.A else landlock_remedy()
            return f"{error} ({remedy})" if remedy else str(error)
    if code == TEST_EXIT_CODE:
        return ""
    if code is None:
        return f"the test program in the sandbox did not end within {TEST_PROGRAM_S:.0f} s"
    return f"the test program in the sandbox did not run as expected (exit code {code}, not {TEST_EXIT_CODE})"


def _run(level: AgentLevel, scratch: Path) -> int | None:
    workspace, home, temporary = (scratch / "run" / name for name in ("workspace", "home", "tmp"))
    for folder in (workspace, home, temporary):
        folder.mkdir(parents=True)
    sandbox = AgentSandbox(workspace, home, temporary, make_python(scratch / "run" / "python"))
    null = os.open(os.devnull, os.O_RDWR)
    try:
        with launch(TEST_PROGRAM, sandbox, level, null, null, null) as process:
            return process.wait(TEST_PROGRAM_S)
    finally:
        os.close(null)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder that is removed at the end of the block, also if this process is killed: by a process
    that is started before the folder exists and waits until its input ends."""
    folder = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}").resolve()
    remover = ["/bin/sh", "-c", REMOVE_AT_END, str(folder)]
    with subprocess.Popen(remover, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True):
        os.mkdir(folder, 0o700)
        yield folder
