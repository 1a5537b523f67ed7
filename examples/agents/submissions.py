"""What the evolutionary agents of this folder share: a candidate becomes a submission, one at a time.

Evolution frameworks evaluate candidates in parallel, in processes of their own. The judge plays one submission at a
time and refuses others (`busy`), so a lock file makes them wait for each other. A candidate that was played on the same
cases before is not played again: its returns would be the same, and cost budget.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

WORST = -1e9  # the score of a candidate that does not load, or that the budget does not last for
WORKSPACE = Path.cwd()
POLICY = WORKSPACE / "system" / "policy.py"
PLAYED = WORKSPACE / ".played"
TRY_LATER, NOT_PERMITTED = 75, 77  # exit codes of an agent whose model is in trouble: its run is suspended, not failed


def play(policy: str, cases: list[int]) -> dict[str, Any]:
    """Submit a policy for some cases and return the summary of the submission; one with ``error`` if it was refused."""
    PLAYED.mkdir(exist_ok=True)
    name = hashlib.sha256(json.dumps([policy, cases]).encode()).hexdigest()
    with open(PLAYED / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (earlier := PLAYED / f"{name}.json").exists():
            return dict(json.loads(earlier.read_text()))
        POLICY.write_text(policy)
        done = _submit("--json", ",".join(map(str, cases)))
        if not done.stdout.startswith("{"):
            return {"error": done.stderr.strip()}
        earlier.write_text(done.stdout)
        return dict(json.loads(done.stdout))


def score(summary: dict[str, Any]) -> float:
    mean = summary.get("mean_return")
    return WORST if mean is None else float(mean)


def feedback(summary: dict[str, Any]) -> str:
    """Return what a model should know about a submission."""
    shown = ("status", "mean_return", "returns", "lengths", "errors", "error")
    return json.dumps({name: summary[name] for name in shown if name in summary})


def remaining() -> int:
    """Return the training episodes that are left; 0 when the run is closed."""
    done = _submit("--info", "--json")
    return int(json.loads(done.stdout)["state"]["remaining_budget"]) if done.stdout.startswith("{") else 0


def _submit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "submit.py", *words], capture_output=True, text=True, cwd=WORKSPACE)
