"""What a policy can use is the same at every level."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocked_syscalls import block_syscalls
from conftest import policy_source, toy_task
from evopolicygym.errors import IsolationUnavailable
from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.sandbox.runtime import runtime

ROOMY = toy_task(limits=Limits(init_cpu_s=30, act_cpu_s=30, episode_cpu_s=60, memory_mb=2048))
NOT_FOR_TESTS = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "lib2to3"}
IMPORT_EVERYTHING = """
import importlib, json
missing = []
for name in sorted(sys.stdlib_module_names - {excluded!r}):
    try:
        importlib.import_module(name)
    except ImportError:
        missing.append(name)
print(json.dumps(missing))
"""


def missing(policy_player, level: Level) -> list[str]:
    source = policy_source(init=IMPORT_EVERYTHING.format(excluded=NOT_FOR_TESTS))
    result = policy_player(ROOMY, levels=(level,)).play(source)
    assert result.error is None, result.error
    return json.loads(result.stdout.splitlines()[-1])


def test_the_standard_library_is_there(policy_player):
    plain = missing(policy_player, Level.NONE)
    assert missing(policy_player, Level.A) == plain
    assert missing(policy_player, Level.B) == plain
    assert (
        not {"json", "heapq", "statistics", "dataclasses", "sqlite3", "ctypes"} & set(plain) or sys.platform != "linux"
    )


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_the_kernel_says_that_every_layer_is_on(tmp_path, level):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "policy.py").write_text("import time\ntime.sleep(60)")
    zygote = Zygote(level, tmp_path)
    child = zygote.spawn("p", Limits(), bytes(32), {"obs_space": {}, "action_space": {}, "env_meta": {}})
    status = facts(f"/proc/{facts(f'/proc/self/fdinfo/{child.pidfd}')['Pid'].split()[0]}/status")
    zygote.end(child)
    zygote.close()
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    if level is Level.A or os.geteuid() == 0:
        assert int(status["CapBnd"], 16) == 0
    if level is Level.A:
        assert status["NSpid"].split()[-1] == "1"


def facts(path: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(path).read_text().splitlines() if ":\t" in line)


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_numpy_and_scipy_are_there_and_do_their_work(policy_player, level):
    act = """
    import numpy.linalg, scipy.linalg, scipy.optimize, scipy.signal, scipy.spatial, scipy.interpolate, scipy.stats
    assert np.allclose(scipy.linalg.solve(np.eye(3) * 2, np.ones(3)), 0.5)
    assert abs(scipy.optimize.minimize(lambda x: (x[0] - 3) ** 2, [0.0]).x[0] - 3) < 1e-3
    return 1
    """
    result = policy_player(ROOMY, levels=(level,)).play(policy_source(act=act))
    assert result.error is None, result.error


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_nothing_can_be_written(policy_player, level):
    act = """
    for folder in ("/", "/tmp", "/dev/shm", os.path.dirname(os.path.abspath(__file__)), os.path.dirname(np.__file__)):
        try:
            open(os.path.join(folder, "note"), "w")
        except OSError:
            continue
        return 2
    open(os.devnull, "w").write("fine")
    return 0
    """
    result = policy_player(ROOMY, levels=(level,)).play(policy_source(act=act))
    assert result.error is None, result.error
    assert result.score < 10


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_checkpoints_among_the_libraries_are_refused(level):
    for root in runtime().roots:
        with pytest.raises(IsolationUnavailable, match="checkpoints must not be kept in"):
            Zygote(level, Path(root) / "site-packages" / "checkpoints")


START = """
import sys
sys.path.insert(0, {tests!r})
from conftest import PUBLISHABLE, toy_task
from evopolicygym.errors import IsolationUnavailable, is_permanent
from evopolicygym.execution.engine import LocalEngine
if __name__ == "__main__":
    try:
        LocalEngine(toy_task(), 1, PUBLISHABLE).close()
    except IsolationUnavailable as error:
        print(is_permanent(error), sorted(error.reasons))
"""


@pytest.mark.parametrize(
    ("calls", "number", "permanent"),
    [
        (["unshare", "landlock"], errno.EPERM, True),
        (["unshare", "landlock"], errno.ENOMEM, False),
        (["seccomp"], errno.EPERM, True),
        (["seccomp"], errno.EAGAIN, False),  # in the self-test, a process further down
    ],
)
def test_a_shortage_that_keeps_a_level_from_holding_may_pass(calls, number, permanent):
    script = START.format(tests=str(Path(__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=block_syscalls(calls, number),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == f"{permanent} ['A', 'B']\n", done.stderr
