"""Find out what this machine can isolate, by trying it in a child process, with the remedy for what fails; and measure
how fast the jail is."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from evopolicygym.errors import IsolationUnavailable
from evopolicygym.limits import Limits
from evopolicygym.sandbox import kernel, landlock, seccomp
from evopolicygym.sandbox.policy import syscall_filter
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.policy_process import PolicyArguments, PolicyProcess
from evopolicygym.sandbox.policy.zygote_client import Zygote

NAMESPACES = {
    "user": kernel.CLONE_NEWUSER,
    "mount": kernel.CLONE_NEWNS,
    "pid": kernel.CLONE_NEWPID,
    "network": kernel.CLONE_NEWNET,
    "ipc": kernel.CLONE_NEWIPC,
}

# Settings that explain a missing layer: the file, the value that is wrong, and what to do about it.
SYSCTLS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 gives level A; level B works as it is"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0",
     "sudo sysctl -w kernel.unprivileged_userns_clone=1 gives level A; level B works as it is"),
    ("/proc/sys/user/max_user_namespaces", "0",
     "sudo sysctl -w user.max_user_namespaces=10000 gives level A; level B works as it is"),
)  # fmt: skip
CONTAINER_REMEDY = (
    "in a container add --security-opt seccomp=unconfined --security-opt apparmor=unconfined (and, as root, "
    "--cap-add SYS_ADMIN) for level A; level B works as it is"
)
NEEDS_LANDLOCK = "needs Linux 5.13 or newer, booted with landlock in its lsm= list"


@dataclass(frozen=True)
class Probe:
    """Result of one attempt: whether it works, details, and what to do if it must work."""

    name: str
    ok: bool
    detail: str = ""
    remedy: str = ""


def probe_isolation() -> list[Probe]:
    """Try every layer by itself, then each level as a whole."""
    layers = [_attempt(f"namespace {name}", partial(_unshare, flag)) for name, flag in NAMESPACES.items()]
    abi = landlock.abi()
    layers.append(_attempt("Landlock refuses an open", _landlock_refuses, f"ABI {abi}", NEEDS_LANDLOCK))
    layers.append(_attempt("seccomp refuses a socket", _seccomp_refuses))
    return [*layers, *(probe_level(level) for level in (Level.A, Level.B))]


def namespace_remedy() -> str:
    """Return what to do where namespaces are refused, by the setting that refuses them."""
    for path, wrong, remedy in SYSCTLS:
        try:
            if Path(path).read_text().strip() == wrong:
                return remedy
        except OSError:
            continue
    return CONTAINER_REMEDY


def landlock_remedy() -> str:
    """Return what to do where Landlock is missing; empty if it is there, as then something else is wrong."""
    return "" if landlock.abi() else NEEDS_LANDLOCK


def probe_level(level: Level) -> Probe:
    with tempfile.TemporaryDirectory() as checkpoints:
        try:
            Zygote(level, Path(checkpoints)).close()
        except IsolationUnavailable as error:
            remedy = namespace_remedy() if level is Level.A else landlock_remedy()
            return Probe(f"level {level}", False, error.reasons[level], remedy)
    return Probe(f"level {level}", True)


def _attempt(name: str, attempt: Callable[[], object], detail: str = "", remedy: str = "") -> Probe:
    """Make the attempt in a child process, so that its effects end with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except BaseException as error:
            os.write(writer, f"{error}".encode()[:500])
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        message = file.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status == 0:
        return Probe(name, True, detail)
    return Probe(name, False, message or f"died with status {status}", remedy or namespace_remedy())


def _unshare(flag: int) -> None:
    as_user = 0 if os.geteuid() == 0 else kernel.CLONE_NEWUSER
    kernel.unshare(flag | as_user)


def _landlock_refuses() -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(["/usr"])
    _refused(lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))


def _seccomp_refuses() -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.apply(syscall_filter.build(os.getpid()))
    _refused(lambda: socket.socket().close())


def _refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except PermissionError:
        return
    raise OSError("the forbidden call went through")


BOX: Final = {"type": "Box", "shape": [8], "dtype": "float64", "low": -1.0, "high": 1.0}
STARTS: Final = 20
STEPS: Final = 5_000
POLICY: Final = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): return obs
"""


def measure_jail(level: Level) -> dict[str, float]:
    """Return medians of starting a policy process, of starting a cold Python with numpy, and of one round trip."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        with tempfile.TemporaryDirectory() as checkpoints:
            (Path(checkpoints) / "p").mkdir()
            (Path(checkpoints) / "p" / "policy.py").write_text(POLICY)
            zygote = Zygote(level, Path(checkpoints))
            ready = statistics.median(_start_s(zygote) for _ in range(STARTS))
            step = _step_s(zygote)
            zygote.close()
        cold = statistics.median(_cold_s() for _ in range(5))
    finally:
        os.sched_setaffinity(0, allowed)
    return {"policy ready ms": ready * 1e3, "cold python+numpy ms": cold * 1e3, "times faster": cold / ready,
            "round trip us": step * 1e6}  # fmt: skip


def _process(zygote: Zygote) -> PolicyProcess:
    return PolicyProcess(zygote, "p", PolicyArguments(BOX, BOX, {}), Limits(), bytes(32))


def _start_s(zygote: Zygote) -> float:
    began = time.perf_counter()
    policy = _process(zygote)
    policy.wait_ready()
    seconds = time.perf_counter() - began
    policy.close()
    return seconds


def _step_s(zygote: Zygote) -> float:
    policy = _process(zygote)
    policy.wait_ready()
    observation = np.zeros(8)
    policy.reset(observation)
    policy.first_action()
    began = time.perf_counter()
    for _ in range(STEPS):
        policy.act(observation)
    seconds = time.perf_counter() - began
    policy.close()
    return seconds / STEPS


def _cold_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "import numpy"], check=True)
    return time.perf_counter() - began
