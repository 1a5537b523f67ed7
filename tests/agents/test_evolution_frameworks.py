"""The examples of evolution frameworks play whole runs from virtual environments of their own."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from evolution_script import POLICY, evolve
from run_helpers import KEY, run_to_record
from scripted_model import ScriptedModel

from install_helpers import install_once, run

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
FRAMEWORKS = {"gepa": "gepa==0.1.4", "openevolve": "openevolve==0.4.0", "shinka": "shinka-evolve==0.0.7"}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Proposer:
    """Answers every request with a whole policy, each better than the one before, up to the best."""

    def __init__(self) -> None:
        self._asked, self._lock = 0, threading.Lock()

    def __call__(self, history: object) -> str:
        return evolve(())

    def without_tools(self) -> str:
        with self._lock:
            self._asked += 1
            return f"This may be better:\n```python\n{POLICY.format(version=min(self._asked, 2))}```\n"


def installed_python(package: str) -> Path:
    def install(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)], package)
        run([str(folder / "bin" / "pip"), "install", "--quiet", package], package)

    return install_once(package, install) / "bin" / "python"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_plays_a_whole_run(name, tmp_path):
    """Its packages are visible, its calls go through the gateway, and its population becomes submissions one by one."""
    python = installed_python(FRAMEWORKS[name])
    with ScriptedModel(Proposer()) as model:
        record = run_to_record(
            tmp_path / "run", "--agent", "command", "--model", "scripted", "--model-url", f"{model.url}/v1",
            "--agent-env", "OPENAI_API_KEY", "--budget", "32", "--", str(python), str(EXAMPLES / f"{name}_agent.py"),
            OPENAI_API_KEY=KEY,
        )  # fmt: skip
    assert record["outcome"]["kind"] == "scored" and record["outcome"]["submission"] == 3, "the best policy"
    assert [submission["verdict"] for submission in record["submissions"]] == ["ok"] * 3, "none is played twice"
    assert "busy" not in record["budget"]["refused"] and [turn["failure"] for turn in record["turns"]] == [None]
    assert record["usage"]["sources"] == ["gateway"] and {request["key"] for request in model.seen} == {KEY}
