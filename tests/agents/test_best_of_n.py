"""Plain sampling from a model through the gateway, and servers that do without keys."""

from __future__ import annotations

import json

import pytest
from evolution_script import POLICY, evolve
from run_helpers import RealClientRun, run_agent, run_to_record
from scripted_model import ScriptedModel

from server_helpers import command

pytestmark = pytest.mark.timeout(300)


class Sampled:
    """Answers with a policy, each better than the one before; the second answer has no program."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, history: object) -> str:
        return evolve(())

    def without_tools(self) -> str:
        self.asked += 1
        version = min(self.asked, 2)
        return "I cannot." if self.asked == 2 else f"Here:\n```python\n{POLICY.format(version=version)}```\nGood luck."


def test_programs_are_sampled_from_one_prompt_without_feedback(tmp_path):
    options = ("--agent", "best-of-n", "--model", "openai/scripted", "--option", "programs=3")
    with ScriptedModel(Sampled()) as model:
        record = run_to_record(
            tmp_path / "run", *options, "--model-url", f"{model.url}/v1", OPENAI_API_KEY="scripted-key"
        )
    assert [submission["verdict"] for submission in record["submissions"]] == ["ok"] * 3 and record["outcome"][
        "kind"
    ] == "scored"
    assert [submission["charged"] for submission in record["submissions"]] == [4, 4, 4], (
        "equal shares of the budget of 12"
    )
    assert len(model.seen) == 4 and len({request["asked"] for request in model.seen}) == 1, "always the same prompt"
    assert not model.seen[0]["tools"] and "submit.py" in model.seen[0]["asked"] and "summary.json" not in model.seen[-1]
    (turn,) = record["turns"]
    assert turn["failure"] is None and turn["calls"]["requests"] == 4
    assert record["agent"]["settings"]["model_access"] == "gateway" and record["usage"]["sources"] == ["gateway"]


@pytest.mark.parametrize(
    "name", ["model", *(pytest.param(name, marks=pytest.mark.slow) for name in ("codex", "claude"))]
)
def test_a_server_without_keys_needs_no_key(name, tmp_path, monkeypatch):
    """Ollama, llama.cpp and vLLM are mostly started without keys: the address is all that is given."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # without a login
    real = RealClientRun(name, model := ScriptedModel())
    environment = {"PATH": real.environment["PATH"]} if "PATH" in real.environment else {}
    with model:
        done = run_agent(tmp_path / "run", *real.options, **environment)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["outcome"]["kind"] == "scored" and record["agent"]["settings"]["model_access"] == "gateway"
    assert {request["key"] for request in model.seen} == {"no-key"}
    assert record["usage"]["sources"] == ["gateway"]


def test_agent_check_asks_a_server_without_keys(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with ScriptedModel() as model:
        checked = command("agent", "check", "model", "--model-url", f"{model.url}/v1")
        assert checked.returncode == 0 and "not ready" not in checked.stdout, checked.stdout
    assert command("agent", "check", "model").returncode == 1
