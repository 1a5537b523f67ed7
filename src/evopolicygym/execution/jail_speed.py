"""Measures how fast the jail is on this machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.policy_process import PolicyArguments, PolicyProcess
from evopolicygym.sandbox.policy.zygote_client import Zygote

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
        with tempfile.TemporaryDirectory() as stage:
            (Path(stage) / "p").mkdir()
            (Path(stage) / "p" / "policy.py").write_text(POLICY)
            zygote = Zygote(level, Path(stage))
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
    took = time.perf_counter() - began
    policy.close()
    return took


def _step_s(zygote: Zygote) -> float:
    policy = _process(zygote)
    policy.wait_ready()
    observation = np.zeros(8)
    policy.reset(observation)
    policy.first_action()
    began = time.perf_counter()
    for _ in range(STEPS):
        policy.act(observation)
    took = time.perf_counter() - began
    policy.close()
    return took / STEPS


def _cold_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "import numpy"], check=True)
    return time.perf_counter() - began
