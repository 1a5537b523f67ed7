"""Real clients play whole small runs against a scripted model: resumed, metered, and understood when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_installs import installed
from driving import KEY, Seat
from scripted_model import ScriptedModel

from evopolicygym.agents import prompts
from evopolicygym.agents.turns import FailureKind, Usage

BUDGET = 12
RUN = ("--validation-cases", "2", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper", "--budget", str(BUDGET))
MODELS = {
    "claude": "claude-scripted",
    "gemini": "gemini-scripted",
    "opencode": "scripted/model",
    "goose": "openai/model",
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("goose", "kimi", "qwen", "gemini", "opencode")]
QUICK = ["codex", "claude"]
pytestmark = [pytest.mark.timeout(1500), pytest.mark.xdist_group("clients")]

# Four requests in the first turn and seven in the second, each 1000 in (100 cached), 50 out (7 reasoning).
CHAT = {"fresh_input": 900, "cache_read": 100, "cache_write": 0, "output": 50, "reasoning": None}
USAGE = {
    "codex": CHAT | {"reasoning": 7},
    "claude": CHAT | {"cache_write": 11, "reasoning": 0},
    "kimi": CHAT,
    "qwen": CHAT | {"cache_write": None},
    "goose": CHAT,
    "gemini": CHAT | {"cache_write": None, "output": 57, "reasoning": 7},
    "opencode": CHAT | {"reasoning": 7},
}


def seat(name: str, model: ScriptedModel, folder: Path, workspace: Path, **more) -> Seat:
    base = model.url if name in ("claude", "gemini") else f"{model.url}/v1"
    return Seat(installed(name), folder / "seat", workspace, model=MODELS.get(name, "scripted"), base_url=base, **more)


def tokens(usage: Usage | None) -> dict[str, int | None]:
    assert usage
    return {name: getattr(usage, name) for name in CHAT}


def times(count: int, name: str) -> dict[str, int | None]:
    return {key: None if value is None else count * value for key, value in USAGE[name].items()}


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_whole_run_in_two_turns(name, serve, tmp_path):
    server = serve(*RUN)
    with ScriptedModel() as model:
        player = seat(name, model, tmp_path, server.workspace)
        first = player.turn(prompts.opening(BUDGET))
        assert first.failure is None and first.text == "A first version is submitted.", (first, player.stderr)
        assert first.session and server.remaining() == BUDGET - 4
        second = player.turn(prompts.go_on(server.remaining(), BUDGET))
        assert second.failure is None and second.text.startswith("The budget is spent"), (second, player.stderr)
        assert second.session == first.session and server.remaining() == 0
    assert (tokens(first.usage), tokens(second.usage)) == (times(4, name), times(7, name))
    assert {request["key"] for request in model.seen} == {KEY}
    record = server.finish()
    assert record["outcome"]["submission"] == 3  # the third version plays the best action


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [("401", FailureKind.AUTHENTICATION), ("429", FailureKind.RATE_LIMIT), ("cut", FailureKind.PROVIDER)],
)
def test_faults_are_recognised_and_the_session_goes_on(name, fault, kind, tmp_path):
    with ScriptedModel(script=lambda past: "Done.", fault=fault) as model:
        player = seat(name, model, tmp_path, tmp_path)
        failed = player.turn("Say something.")
        assert failed.failure and failed.failure.kind is kind, (failed, player.stdout, player.stderr)
        model.fault = None
        assert player.turn("Say something.").failure is None, (player.stdout, player.stderr)
