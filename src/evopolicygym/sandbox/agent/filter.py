"""The seccomp filter of an agent: a short list of refusals, laid last. See ``refused`` for the list and its reasons."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

from evopolicygym.sandbox.agent import refused
from evopolicygym.sandbox.agent.refused import Numbers, here
from evopolicygym.sandbox.seccomp import (
    ALLOW,
    AND,
    ARCHITECTURE,
    CLONE_ANY_NAMESPACE,
    DENY,
    JUMP_ANY_BIT,
    JUMP_EQUAL,
    JUMP_GREATER_EQUAL,
    KILL,
    LOAD,
    NOT_THERE,
    NUMBER,
    RETURN,
    X32_BIT,
    low,
    only_honest_open,
    op,
    when,
)
from evopolicygym.sandbox.syscalls import AUDIT_ARCH, table

TERMINAL_INJECTION: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into somebody's terminal
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, TYPE_BITS = 1, 0xF
TCP: Final = (0, 6)
FAST_OPEN: Final = 0x2000_0000  # connects in a send, where Landlock does not look


@dataclass(frozen=True)
class Rules:
    """``own_ipc``: it has an IPC namespace and a private root. ``only_tcp``: what it may reach is decided by TCP port,
    so there must be no other way out. ``abi``: of the Landlock in force; None where Landlock guards no files."""

    own_ipc: bool
    only_tcp: bool
    abi: int | None


def build(rules: Rules) -> bytes:
    machine = platform.machine()
    program = [
        op(LOAD, ARCHITECTURE),
        op(JUMP_EQUAL, AUDIT_ARCH[machine], 1),
        op(RETURN, KILL),
        op(LOAD, NUMBER),
        op(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        op(RETURN, KILL),
        *_refuse(refused.ALWAYS, DENY),
        *_refuse(refused.NOT_THERE, NOT_THERE),
        *when(here(refused.CLONE), _without_bits(0, CLONE_ANY_NAMESPACE)),
        *when(here(refused.IOCTL), _without_values(1, TERMINAL_INJECTION)),
        *when(here(refused.SOCKET), _tcp_sockets() if rules.only_tcp else _families(_allowed_families(rules))),
    ]
    if not rules.own_ipc:
        program += _refuse(refused.SHARED_MEMORY, DENY)
    if rules.only_tcp:
        program += when(here(refused.SENDTO), _without_bits(3, FAST_OPEN))
        program += when(here(refused.SENDMSG), _without_bits(2, FAST_OPEN))
        program += when(here(refused.SENDMMSG), _without_bits(3, FAST_OPEN))
    if rules.abi is not None and rules.abi < 3:
        program += _guard_truncation()
    return b"".join([*program, op(RETURN, ALLOW)])


def _allowed_families(rules: Rules) -> tuple[int, ...]:
    """Sockets with a path lead to the host's services, unless its files are not there. Others are for no coding tool,
    and some (vsock) know no namespace."""
    return (UNIX, INET, INET6, NETLINK) if rules.own_ipc else (INET, INET6, NETLINK)


def _guard_truncation() -> list[bytes]:
    numbers = table()
    return [
        *_refuse(refused.BY_PATH_UNSEEN, DENY),
        *_refuse(refused.OPEN_UNSEEN, NOT_THERE),
        *when(numbers["openat"], only_honest_open(2)),
        *(when(numbers["open"], only_honest_open(1)) if "open" in numbers else []),
    ]


def _refuse(calls: Numbers, answer: int) -> list[bytes]:
    return [code for numbers in calls.values() for code in when(here(numbers), [op(RETURN, answer)])]


def _without_bits(argument: int, bits: int) -> list[bytes]:
    return [op(LOAD, low(argument)), op(JUMP_ANY_BIT, bits, 1), op(RETURN, ALLOW), op(RETURN, DENY)]


def _without_values(argument: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [op(JUMP_EQUAL, value, len(values) - i) for i, value in enumerate(values)]
    return [op(LOAD, low(argument)), *tests, op(RETURN, ALLOW), op(RETURN, DENY)]


def _families(families: tuple[int, ...]) -> list[bytes]:
    tests = [op(JUMP_EQUAL, family, len(families) - i) for i, family in enumerate(families)]
    return [op(LOAD, low(0)), *tests, op(RETURN, DENY), op(RETURN, ALLOW)]


def _tcp_sockets() -> list[bytes]:
    """Streams of protocol TCP, and questions to the kernel about addresses (a netlink socket of protocol 0)."""
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
