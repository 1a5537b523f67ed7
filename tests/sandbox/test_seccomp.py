"""The seccomp filter, run by a small interpreter of the filter language, also for other architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from evopolicygym.sandbox import seccomp
from evopolicygym.sandbox.kernel import AUDIT_ARCH, TABLES
from evopolicygym.sandbox.policy import syscall_filter
from evopolicygym.sandbox.policy.syscall_filter import ALLOWED
from evopolicygym.sandbox.seccomp import ALLOW, DENY, KILL, NOT_THERE

OWN_PID = 4242
BY_ARGUMENT = (
    "clone clone3 prlimit64 ioctl fcntl kill tgkill futex mmap madvise open openat clock_gettime clock_getres "
    "clock_nanosleep sched_getaffinity sched_getparam sched_getscheduler"
).split()
SOME_NOT_ALLOWED = {
    "x86_64": {
        "socket": 41, "execve": 59, "fork": 57, "ptrace": 101, "mount": 165, "keyctl": 250, "io_uring_setup": 425,
        "memfd_create": 319, "bpf": 321, "unlink": 87, "rename": 82, "truncate": 76, "flock": 73,
        "pipe": 22, "pipe2": 293, "eventfd": 284, "eventfd2": 290, "epoll_create": 213, "epoll_create1": 291,
        "timerfd_create": 283, "inotify_init": 253, "inotify_init1": 294, "signalfd4": 289, "shmget": 29,
        "memfd_secret": 447, "userfaultfd": 323, "socketpair": 53, "pidfd_open": 434, "mq_open": 240,
        "readahead": 187, "fadvise64": 221, "mincore": 27, "cachestat": 451, "sync_file_range": 277,
        "process_madvise": 440, "mlock": 149, "mlock2": 325, "mlockall": 151, "remap_file_pages": 216,
    },
    "aarch64": {
        "socket": 198, "execve": 221, "ptrace": 117, "mount": 40, "keyctl": 219, "io_uring_setup": 425,
        "memfd_create": 279, "bpf": 280, "unlinkat": 35, "renameat": 38, "truncate": 45, "flock": 32,
        "pipe2": 59, "eventfd2": 19, "epoll_create1": 20, "timerfd_create": 85, "inotify_init1": 26,
        "signalfd4": 74, "shmget": 194, "memfd_secret": 447, "userfaultfd": 282, "socketpair": 199,
        "pidfd_open": 434, "mq_open": 180, "readahead": 213, "fadvise64": 223, "mincore": 232, "cachestat": 451,
        "sync_file_range": 84, "process_madvise": 440, "mlock": 228, "mlock2": 284, "mlockall": 230,
        "remap_file_pages": 234,
    },
}  # fmt: skip


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    program = list(struct.iter_unpack("HBBI", syscall_filter.build(OWN_PID, machine)))
    values = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<IIQ6Q", number, AUDIT_ARCH[machine] if arch is None else arch, 0, *values)
    accumulator, at = 0, 0
    while True:
        code, true, false, operand = program[at]
        at += 1
        if code == seccomp.RETURN:
            return int(operand)
        if code == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
            continue
        if code == seccomp.AND:
            accumulator &= operand
            continue
        holds = {
            seccomp.JUMP_EQUAL: accumulator == operand,
            seccomp.JUMP_GREATER_EQUAL: accumulator >= operand,
            seccomp.JUMP_ANY_BIT: bool(accumulator & operand),
        }[code]
        at += true if holds else false


@pytest.mark.parametrize("machine", TABLES)
class TestFilter:
    def test_allowed_calls_pass_and_all_others_are_refused(self, machine):
        numbers = TABLES[machine]
        allowed = {numbers[name] for name in ALLOWED if name in numbers}
        by_argument = {numbers[name] for name in BY_ARGUMENT if name in numbers}
        for number in set(range(500)) - by_argument:
            assert verdict(machine, number) == (ALLOW if number in allowed else DENY), number

    def test_dangerous_calls_are_refused(self, machine):
        assert {verdict(machine, number) for number in SOME_NOT_ALLOWED[machine].values()} == {DENY}

    def test_another_architecture_is_killed(self, machine):
        assert verdict(machine, 0, arch=0x40000003) == KILL
        assert verdict(machine, 0x40000000) == KILL

    def test_threads_but_no_processes_or_namespaces(self, machine):
        clone, thread = TABLES[machine]["clone"], 0x3D0F00
        assert verdict(machine, clone, thread) == ALLOW
        assert verdict(machine, clone, 17) == DENY
        assert verdict(machine, clone, thread | 0x10000000) == DENY
        assert verdict(machine, TABLES[machine]["clone3"]) == NOT_THERE

    def test_limits_can_be_read_but_not_set(self, machine):
        prlimit = TABLES[machine]["prlimit64"]
        assert verdict(machine, prlimit, 0, 7, 0) == ALLOW
        assert verdict(machine, prlimit, 0, 7, 0x1000) == DENY
        assert verdict(machine, prlimit, 0, 7, 0x1000_0000_0000) == DENY
        assert verdict(machine, prlimit, 1, 7, 0) == DENY

    def test_calls_about_other_processes_are_refused(self, machine):
        numbers = TABLES[machine]
        assert verdict(machine, numbers["sched_getaffinity"], 0) == ALLOW
        assert verdict(machine, numbers["sched_getaffinity"], 1) == DENY
        assert verdict(machine, numbers["clock_gettime"], 1) == ALLOW
        assert verdict(machine, numbers["clock_gettime"], 2**32 - 6) == DENY

    def test_futexes_do_not_reach_other_processes(self, machine):
        assert verdict(machine, TABLES[machine]["futex"], 0, 128) == ALLOW
        assert verdict(machine, TABLES[machine]["futex"], 0, 0) & 0xFFFF == errno.EAGAIN

    @pytest.mark.parametrize(
        ("flags", "passes"), [(0, True), (0o1000, False), (0o1001, True), (0o1002, True), (0o1003, False)]
    )
    def test_truncation_needs_the_right_to_write(self, machine, flags, passes):
        assert verdict(machine, TABLES[machine]["openat"], 0, 0, flags) == (ALLOW if passes else DENY)

    def test_signals_reach_the_own_process_alone(self, machine):
        for name in ("kill", "tgkill"):
            assert verdict(machine, TABLES[machine][name], OWN_PID) == ALLOW
            assert verdict(machine, TABLES[machine][name], 1) == DENY
            assert verdict(machine, TABLES[machine][name], 2**32 - 1) == DENY

    def test_locks_and_terminal_controls_are_refused(self, machine):
        fcntl, ioctl = TABLES[machine]["fcntl"], TABLES[machine]["ioctl"]
        assert verdict(machine, fcntl, 3, 3) == ALLOW
        assert verdict(machine, fcntl, 3, 6) == DENY
        assert verdict(machine, ioctl, 1, 0x5401) == ALLOW
        assert verdict(machine, ioctl, 1, 0x5412) & 0xFFFF == errno.ENOTTY

    @pytest.mark.parametrize(
        ("flags", "passes"),
        [
            (0x02, True),  # private, of a file: how libraries are loaded
            (0x01, True),  # shared, of a file
            (0x22, True),  # private, anonymous: all of malloc
            (0x20022, True),  # a thread's stack
            (0x21, False),  # shared, anonymous
            (0x23, False),  # the same by MAP_SHARED_VALIDATE
            (0x8021, False),
            (0x40022, False),  # huge pages: the attempt takes a number, whether there are any or not
            (0x40002, False),
            (0x7840022, False),
        ],
    )
    def test_memory_that_takes_a_number_of_the_whole_machine(self, machine, flags, passes):
        assert verdict(machine, TABLES[machine]["mmap"], 0, 4096, 3, flags) == (ALLOW if passes else DENY)

    @pytest.mark.parametrize("advice", range(26))
    def test_advice_that_reaches_no_other_process(self, machine, advice):
        harmless = {"normal": 0, "random": 1, "sequential": 2, "willneed": 3, "dontneed": 4, "free": 8, "hugepage": 14}
        harmless |= {"nohugepage": 15, "dontdump": 16, "dodump": 17, "wipeonfork": 18}
        answer = verdict(machine, TABLES[machine]["madvise"], 0, 4096, advice)
        assert answer == ALLOW if advice in harmless.values() else answer & 0xFFFF == errno.EINVAL
