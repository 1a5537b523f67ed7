"""`evopolicygym run` with real clients: in their jail, killed and taken up again, as another user, and in trouble."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from evolution_script import SUBMIT, evolve
from running import KEY, Real
from scripted_model import ScriptedModel
from wire_formats import Past

QUICK = ["codex", "claude"]
OTHERS = ("goose", "kimi", "qwen", "gemini", "opencode", "openhands")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in OTHERS]
AS_NOBODY = [("codex", "B"), ("claude", "A"), *((name, level) for name in OTHERS for level in ("A", "B"))]
NOBODY = 65534
pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("clients")]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_in_their_jail(name, tmp_path):
    with ScriptedModel() as model:
        real = Real(name, model)
        record = real.plays(tmp_path / "run")
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["isolation"]["agent"] in ("A", "B")
    assert len(record["turns"]) == 2
    assert record["agent"]["version"] == real.client.client.install.version
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*.*") if path.is_file()
                                        and "agent/home" not in str(path))  # fmt: skip


class Pausing:
    """Plays as ever, but never answers the first request after the submission ``pause``: somebody is killed there."""

    def __init__(self, pause: int) -> None:
        self.pause, self.reached, self.killed = pause, threading.Event(), threading.Event()
        self.heard: list[int] = []

    def __call__(self, history: Sequence[Past]) -> str:
        submits = sum(SUBMIT in past.text for past in history if past.kind == "call")
        if submits == self.pause and not self.killed.is_set():
            self.reached.set()
            self.killed.wait()
            raise ConnectionAbortedError
        if self.killed.is_set():
            self.heard.append(submits)
        return evolve(history)


KILLED = [("codex", 2), ("claude", 1), ("model", 1)]
KILLED_SLOWLY = [("codex", 1), ("claude", 2), *((name, pause) for name in OTHERS for pause in (1, 2))]


@pytest.mark.parametrize(
    ("name", "pause"), [*KILLED, *(pytest.param(*case, marks=pytest.mark.slow) for case in KILLED_SLOWLY)]
)
def test_killed_in_the_middle_of_a_turn(name, pause, tmp_path):
    """Same workspace, same budget, and the client's own session: the model hears the earlier conversation."""
    script, root = Pausing(pause), tmp_path / "run"
    with ScriptedModel(script) as model:
        real = Real(name, model)
        process = real.starts(root)
        assert script.reached.wait(120), process.poll()
        process.kill()
        process.wait()
        script.killed.set()
        record = real.resumes(root)
    assert script.heard[0] == pause and "You were interrupted" in model.seen[-1]["asked"]
    failures = [turn["failure"] for turn in record["turns"]]
    assert failures.index("interrupted") == pause - 1 and set(failures) == {None, "interrupted"}
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["budget"]["charged"] == 12 and len(record["submissions"]) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="all of these tests run as another user than root already")
@pytest.mark.parametrize(
    ("name", "level"),
    [("codex", "A"), ("claude", "B"), *(pytest.param(*case, marks=pytest.mark.slow) for case in AS_NOBODY)],
)
def test_as_a_user_who_is_not_root(name, level):
    """The judge and all: everything that `run` starts belongs to a user who may do nothing special."""
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as folder, ScriptedModel() as model:
        os.chmod(folder, 0o777)
        record = Real(name, model).plays_as_nobody(Path(folder) / "run", "--agent-isolation", level)
        assert (Path(folder) / "run").stat().st_uid == NOBODY
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["isolation"]["agent"] == level and record["isolation"]["publishable"]
    assert [turn["failure"] for turn in record["turns"]] == [None, None]
