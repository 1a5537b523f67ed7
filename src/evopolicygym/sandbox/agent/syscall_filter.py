"""The system calls of an agent: a short list of refused calls. Everything else is allowed, because agents fork, exec,
start threads and connect."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

from evopolicygym.sandbox import seccomp
from evopolicygym.sandbox.kernel import table
from evopolicygym.sandbox.seccomp import (
    ALLOW,
    AND,
    CLONE_ANY_NAMESPACE,
    DENY,
    JUMP_ANY_BIT,
    JUMP_EQUAL,
    LOAD,
    RETURN,
    low,
    only_values,
    only_writable_truncation,
    op,
    prologue,
    when,
)

# Kernel surface that no coding tool needs, and ways to other namespaces.
REFUSED: Final = (
    "mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr unshare setns "
    "swapon swapoff reboot kexec_load kexec_file_load init_module finit_module delete_module acct quotactl syslog bpf "
    "perf_event_open userfaultfd name_to_handle_at open_by_handle_at "
    # Keyrings are shared by user, not by namespace: an agent could leave notes for another run.
    "add_key request_key keyctl"
).split()

# They would do what the rules below refuse, unseen by them. Programs are prepared for the answer "no such call".
NO_SUCH_CALL: Final = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")

# Without an IPC namespace these would be the host's.
SHARED_MEMORY: Final = ("shmget", "shmat", "semget", "msgget", "mq_open")

TERMINAL_INJECTION: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into another process's terminal
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, TYPE_BITS = 1, 0xF
TCP: Final = (0, 6)
FAST_OPEN: Final = 0x2000_0000  # connects in a send, which Landlock does not check
FLAGS_OF_SENDS: Final = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}


@dataclass(frozen=True)
class Rules:
    """Facts that decide what an agent's filter refuses. ``own_ipc``: the agent has an IPC namespace and a private root.
    ``only_tcp``: what it may reach is decided by TCP port, so there must be no other way out. ``abi``: of the Landlock
    in force; None where Landlock guards no files."""

    own_ipc: bool
    only_tcp: bool
    abi: int | None


def build(rules: Rules, machine: str | None = None) -> bytes:
    machine = machine or platform.machine()
    numbers = table(machine)
    sockets = _only_tcp_sockets() if rules.only_tcp else only_values(0, _allowed_families(rules), DENY)
    program = [
        *prologue(machine),
        *_refuse(numbers, REFUSED, DENY),
        *_refuse(numbers, NO_SUCH_CALL, seccomp.NOT_THERE),
        *when(numbers["clone"], _without_bits(0, CLONE_ANY_NAMESPACE)),
        *when(numbers["ioctl"], _without_values(1, TERMINAL_INJECTION)),
        *when(numbers["socket"], sockets),
    ]
    if not rules.own_ipc:
        program += _refuse(numbers, SHARED_MEMORY, DENY)
    if rules.only_tcp:
        for name, flags in FLAGS_OF_SENDS.items():
            program += when(numbers[name], _without_bits(flags, FAST_OPEN))
    if rules.abi is not None and rules.abi < 3:  # Landlock does not guard truncation before ABI 3
        program += _refuse(numbers, ("truncate",), DENY)
        program += _refuse(numbers, ("openat2",), seccomp.NOT_THERE)
        program += only_writable_truncation(machine)
    return b"".join([*program, op(RETURN, ALLOW)])


def _allowed_families(rules: Rules) -> tuple[int, ...]:
    """Return the allowed socket families. Sockets with a path lead to the host's services, unless the agent has a
    private root. No coding tool needs other families, and some (vsock) are not confined by namespaces."""
    return (UNIX, INET, INET6, NETLINK) if rules.own_ipc else (INET, INET6, NETLINK)


def _refuse(numbers: dict[str, int], names: tuple[str, ...] | list[str], answer: int) -> list[bytes]:
    return [code for name in names for code in when(numbers[name], [op(RETURN, answer)])]


def _without_bits(argument: int, bits: int) -> list[bytes]:
    return [op(LOAD, low(argument)), op(JUMP_ANY_BIT, bits, 1), op(RETURN, ALLOW), op(RETURN, DENY)]


def _without_values(argument: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [op(JUMP_EQUAL, value, len(values) - i) for i, value in enumerate(values)]
    return [op(LOAD, low(argument)), *tests, op(RETURN, ALLOW), op(RETURN, DENY)]


def _only_tcp_sockets() -> list[bytes]:
    """Allow streams of protocol TCP, and queries to the kernel about addresses (a netlink socket of protocol 0)."""
    return [
        op(LOAD, low(0)),
        op(JUMP_EQUAL, NETLINK, 5),
        op(JUMP_EQUAL, INET, 1),
        op(JUMP_EQUAL, INET6, 0, 6),
        op(LOAD, low(1)),
        op(AND, TYPE_BITS),
        op(JUMP_EQUAL, STREAM, 0, 3),
        op(LOAD, low(2)),
        op(JUMP_EQUAL, TCP[0], 2),
        op(JUMP_EQUAL, TCP[1], 1),
        op(RETURN, DENY),
        op(RETURN, ALLOW),
    ]
