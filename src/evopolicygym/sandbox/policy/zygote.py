"""The zygote: a clean process without secrets that forks one jailed child for each episode. Forking from a warm
interpreter makes a fresh process per episode cost only milliseconds.

It is forked by a zygote forker, or exec'd with an empty environment as ``python -P -S -B zygote.py PACKAGE_ROOT SITE
CONTROL_FD``. In either case it is no copy of a process that ever held a secret. On the control socket (SEQPACKET) it
receives its settings, then spawn requests with file descriptors. It answers each with a pidfd, and later reports how
the child ended.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

if __name__ == "__main__":
    _package_root, _site = sys.argv[1:3]
    sys.path[:0] = [_package_root, _site]

from evopolicygym.limits import Limits
from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.policy import policy_main
from evopolicygym.sandbox.policy.jail import Jail, Level, leave_host, self_test
from evopolicygym.sandbox.policy.protocol import REPORT_FD
from evopolicygym.sandbox.privileges import count_tasks
from evopolicygym.sandbox.runtime import Runtime

Message = dict[str, Any]
MESSAGE_BYTES = 1 << 20
COMMON = (
    "dataclasses",
    "hashlib",
    "json",
    "pathlib",
    "numpy.typing",
    "zipfile",
    "encodings.cp437",
)  # the last: np.load
NUMPY = ("numpy", "numpy.random", "scipy", *COMMON)
SCIPY = (*NUMPY, "scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.spatial", "scipy.sparse")


def main(control: socket.socket) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(control.recv(MESSAGE_BYTES))
    os.sched_setaffinity(0, settings["cores"])
    sys.executable = settings["runtime"]["python"]
    for module in settings["preload"]:
        importlib.import_module(module)
    _forget_packages(settings["runtime"])
    jail = _jail(settings)
    try:
        jail.check_stage_is_hidden()
        own_pidfd = _enter(jail)
        jail.prepare()
        _self_test_in_child(jail, own_pidfd)
    except OSError as error:
        _send(control, {"refused": error.strerror or str(error), "errno": error.errno})
        os._exit(1)
    policy_main.hide_package()
    policy_main.warm_up()
    gc.collect()
    gc.freeze()
    _send(control, {"level": jail.level})
    _serve(control, jail, own_pidfd)


def _jail(settings: Message) -> Jail:
    facts: Message = {key: tuple(v) if isinstance(v, list) else v for key, v in settings["runtime"].items()}
    runtime = Runtime(**facts)
    level, checkpoints = Level(settings["level"]), settings["checkpoints"]
    others = count_tasks(os.getuid())
    return Jail(level, checkpoints, runtime, settings["uid"], others, settings["max_landlock_abi"])


def _forget_packages(runtime: Message) -> None:
    """Remove this package and site-packages from the path: loaded packages (numpy, scipy) remain importable."""
    hidden = (runtime["package_root"], runtime["site"])
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) not in hidden and os.path.isdir(path)]
    sys.path_importer_cache.clear()
    importlib.util.find_spec("there_is_no_such_module")  # finders list their folders now; jailed they may not (level B)


def _enter(jail: Jail) -> int:
    """At level A: enter namespaces and become pid 1 of one, so that every policy dies with this process."""
    if jail.level is Level.A:
        leave_host(jail.checkpoints, jail.runtime)
        if child := os.fork():
            os.waitpid(child, 0)
            os._exit(0)
        kernel.die_with_parent(signal.SIGKILL)
    return kernel.pidfd_open(os.getpid())


def _fork(jail: Jail, own_pidfd: int) -> int:
    """Fork a child, at level A into a pid namespace of its own, while this process stays in its namespace."""
    if jail.level is not Level.A:
        return os.fork()
    kernel.unshare(kernel.CLONE_NEWPID)
    child = os.fork()
    if child:
        kernel.setns(own_pidfd, kernel.CLONE_NEWPID)
    return child


def _self_test_in_child(jail: Jail, own_pidfd: int) -> None:
    """Confine a child without a policy and try to break out: a level is claimed only after this test."""
    if jail.level is Level.NONE:
        return
    reader, writer = os.pipe()
    child = _fork(jail, own_pidfd)
    if child == 0:
        try:
            jail.confine(".", Limits())
            self_test(jail)
            os._exit(0)
        except BaseException as error:
            os.write(writer, f"{getattr(error, 'errno', None) or 0} {error}".encode())
        os._exit(1)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    if status:
        number, _, text = os.read(reader, 4096).decode(errors="replace").partition(" ")
        raise OSError(int(number or 0) or None, text or f"the self-test of the jail ended with status {status}")
    os.close(reader)


def _serve(control: socket.socket, jail: Jail, own_pidfd: int) -> NoReturn:
    children: dict[int, int] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in children:
                poll.unregister(ready)
                _send(control, _reap(children.pop(ready)))
                os.close(ready)
            else:
                request, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 8)
                if not request:
                    os._exit(0)
                pidfd, pid = _spawn(control, jail, own_pidfd, json.loads(request), descriptors)
                children[pidfd] = pid
                poll.register(pidfd, select.POLLIN)


def _reap(pid: int) -> Message:
    _, status, usage = os.wait4(pid, 0)
    return {"ended": pid, "status": status, "cpu_s": usage.ru_utime + usage.ru_stime, "rss_kb": usage.ru_maxrss}


def _spawn(
    control: socket.socket, jail: Jail, own_pidfd: int, request: Message, descriptors: list[int]
) -> tuple[int, int]:
    spawn = _spawn_request(jail, request)
    reader, writer = os.pipe()
    child = _fork(jail, own_pidfd)
    if child == 0:
        _become_policy(jail, spawn, descriptors, writer)
    for descriptor in (writer, *descriptors):
        os.close(descriptor)
    pidfd = kernel.pidfd_open(child)
    refused = os.read(reader, 4096).decode(errors="replace")  # empty once every layer is applied
    os.close(reader)
    reply = json.dumps({"pid": child, "refused": refused}).encode()
    socket.send_fds(control, [reply], [pidfd])
    return pidfd, child


@dataclass(frozen=True)
class SpawnRequest:
    """A decoded request for a policy process."""

    checkpoint: str
    limits: Limits
    assignment: policy_main.Assignment


def _spawn_request(jail: Jail, request: Message) -> SpawnRequest:
    checkpoint, key = request["checkpoint"], bytes.fromhex(request["randomness_key"])
    spaces = request["obs_space"], request["action_space"]
    assignment = policy_main.Assignment(jail.policy_folder(checkpoint), *spaces, request["env_meta"], key)
    return SpawnRequest(checkpoint, Limits(**request["limits"]), assignment)


def _become_policy(jail: Jail, spawn: SpawnRequest, descriptors: list[int], writer: int) -> NoReturn:
    """Confine this process, then run the policy. A layer that fails is reported through the pipe, which is closed
    before any policy code runs, so that a policy cannot forge a fault of the jail."""
    pipe = writer
    try:
        _keep_only(descriptors, writer)
        pipe = PIPE_FD
        jail.confine(spawn.checkpoint, spawn.limits)
        os.chdir(spawn.assignment.folder)
    except BaseException as error:
        os.write(pipe, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(PIPE_FD)
    policy_main.run(spawn.assignment)


PIPE_FD = REPORT_FD + 1


def _keep_only(descriptors: list[int], writer: int) -> None:
    """Close all but stdin (empty), stdout and stderr (bounded memory files), the two pipes and the report file."""
    stdout, stderr, requests, answers, report = descriptors
    wanted = [os.open("/dev/null", os.O_RDONLY), stdout, stderr, requests, answers, report, writer]
    safe = [os.dup2(fd, 100 + i) for i, fd in enumerate(wanted)]
    for target, fd in enumerate(safe):
        os.dup2(fd, target)
    os.closerange(PIPE_FD + 1, 4096)


def _send(control: socket.socket, message: Message) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[3])))
