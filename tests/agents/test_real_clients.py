"""Real clients play whole small runs against a scripted model: resumed, metered, and understood when they fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from client_installs import installed
from client_process import KEY, ClientProcess
from run_helpers import MODELS
from scripted_model import ScriptedModel

from evopolicygym.agents import prompts
from evopolicygym.agents.failures import LOST_SESSION, FailureKind
from evopolicygym.agents.turn import Turn
from evopolicygym.agents.usage import Usage

BUDGET = 12
RUN = ("--validation-cases", "2", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper", "--budget", str(BUDGET))
NPM = ("goose", "kimi", "qwen", "gemini", "opencode")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in (*NPM, "openhands")]
QUICK = ["codex", "claude"]
pytestmark = pytest.mark.timeout(1500)

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
    "openhands": CHAT | {"reasoning": 7},
    "mini-swe-agent": CHAT | {"cache_write": None, "reasoning": 7},
}


WEB = {"web_search", "web_search_preview", "WebSearch", "WebFetch", "google_web_search", "web_fetch"}


def make_client(name: str, model: ScriptedModel, folder: Path, workspace: Path, **more) -> ClientProcess:
    base = model.url if name in ("claude", "gemini") else f"{model.url}/v1"
    return ClientProcess(
        installed(name), folder / "client", workspace, model=MODELS.get(name, "scripted"), base_url=base, **more
    )


def tokens(usage: Usage | None) -> dict[str, int | None]:
    assert usage
    return {name: getattr(usage, name) for name in CHAT}


def times(count: int, name: str) -> dict[str, int | None]:
    return {key: None if value is None else count * value for key, value in USAGE[name].items()}


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_whole_run_in_two_turns(name, serve, tmp_path):
    server = serve(*RUN)
    with ScriptedModel() as model:
        player = make_client(name, model, tmp_path, server.workspace)
        first = player.turn(prompts.opening(BUDGET))
        assert first.failure is None and first.text == "A first version is submitted.", (first, player.stderr)
        assert first.session and server.remaining() == BUDGET - 4
        second = player.turn(prompts.continuing(server.remaining(), BUDGET))
        assert second.failure is None and second.text.startswith("The budget is spent"), (second, player.stderr)
        assert second.session == first.session and server.remaining() == 0
    assert (tokens(first.usage), tokens(second.usage)) == (times(4, name), times(7, name))
    assert {request["key"] for request in model.seen} == {KEY}
    assert not {tool for request in model.seen for tool in request["tools"]} & WEB
    if name != "openhands":
        assert "Training cases are numbered" in next(request["asked"] for request in model.seen if request["tools"])
    record = server.finish()
    assert record["outcome"]["submission"] == 3  # the third version plays the best action


@pytest.mark.slow
def test_a_client_without_sessions(serve, tmp_path):
    """Every turn is a conversation of its own, and starts from the files."""
    server = serve(*RUN)
    with ScriptedModel() as model:
        player = make_client("mini-swe-agent", model, tmp_path, server.workspace)
        for remaining in (8, 4, 0):
            turn = player.turn(prompts.continuing(server.remaining(), BUDGET))
            assert (turn.failure, turn.session, server.remaining()) == (None, None, remaining), (turn, player.stderr)
            assert tokens(turn.usage) == times(4, "mini-swe-agent")


FAULTS = {
    "401": FailureKind.AUTHENTICATION,
    "429": FailureKind.RATE_LIMIT,
    "cut": FailureKind.PROVIDER,
    "500": FailureKind.PROVIDER,
}
PATIENT = {("kimi", "429"), ("kimi", "cut"), ("kimi", "500"), ("qwen", "429"), ("qwen", "500")}
"""They try again for minutes, and are killed before. Kimi says why it waits, Qwen does not."""


def cases():
    """The others that are quick are played in whole runs: test_run_clients."""
    for name in (*QUICK, "goose", "kimi", "qwen"):
        for fault in FAULTS:
            quick = (name, fault) in {("codex", "429"), ("claude", "401"), ("claude", "429"), ("claude", "cut")}
            yield pytest.param(name, fault, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "fault"), list(cases()))
def test_faults_are_recognised_and_the_session_goes_on(name, fault, tmp_path):
    with ScriptedModel(script=lambda past: "Done.", fault=fault) as model:
        player = make_client(name, model, tmp_path, tmp_path)
        killed = (name, fault) in PATIENT
        failed = player.turn("Say something.", timeout_s=45.0 if killed else 240.0)
        kind = FailureKind.TIMEOUT if killed and name == "qwen" else FAULTS[fault]
        assert failed.failure and failed.failure.kind is kind, (failed, player.stdout, player.stderr)
        model.fault = None
        mended = player.turn("Say something.")
        assert mended.failure is None and mended.text == "Done.", (mended, player.stdout, player.stderr)


CANNOT = [pytest.param(name, marks=pytest.mark.slow) for name in (*NPM, "claude")]


@pytest.mark.parametrize("name", ["codex", *CANNOT])
def test_a_session_that_is_not_there_is_recognised(name, tmp_path):
    """The next turn is then a new conversation."""
    with ScriptedModel(script=lambda past: "Done.") as model:
        player = make_client(name, model, tmp_path, tmp_path)
        unknown = "session_8a1d7a1e" if name == "kimi" else "8a1d7a1e-6f1c-4b3e-9a52-5f6f9f1f2d11"
        player.turns.append(Turn(0, 1.0, unknown))
        lost = player.turn("Say something.")
        if lost.failure is None:
            pytest.skip(f"{name} begins a new session by itself")
        assert lost.failure.kind is FailureKind.CLIENT and LOST_SESSION.search(lost.failure.text), lost.failure


@pytest.mark.parametrize("name", ["codex", pytest.param("claude", marks=pytest.mark.slow), *SLOW])
def test_a_model_that_says_nothing_is_a_timeout(name, tmp_path):
    with ScriptedModel(fault="hang") as model:
        player = make_client(name, model, tmp_path, tmp_path)
        silent = player.turn("Say something.", timeout_s=2.0, counted=lambda: model.seen)
        assert silent.failure and silent.failure.kind is FailureKind.TIMEOUT and silent.exit_code is None
        assert silent.usage is None and model.seen


def test_the_api_key_is_not_in_the_shell_of_codex(tmp_path):
    heard: list[str] = []

    def script(past):
        heard.extend(item.text for item in past if item.kind == "result")
        return "Done." if heard else "$ env"

    with ScriptedModel(script) as model:
        assert make_client("codex", model, tmp_path, tmp_path).turn("Play.").failure is None
    assert "HOME=" in heard[0] and KEY not in heard[0]


def test_a_turn_limit(tmp_path):
    with ScriptedModel(lambda past: "$ true") as model:
        turn = make_client("claude", model, tmp_path, tmp_path, max_turns=1).turn("Play.")
    assert turn.failure and turn.failure.kind is FailureKind.TURN_LIMIT


@pytest.mark.slow
def test_qwen_runs_one_command_at_a_time_and_nothing_beside_it(tmp_path):
    """It loses the output of a command that ends together with another of its children, in one of eight commands on a
    busy machine: a replay then diverges, and a model works without the output."""
    stand_ins, log = tmp_path / "bin", tmp_path / "log"
    stand_ins.mkdir()
    for name, text in {
        "systemd-inhibit": f"#!/bin/sh\necho inhibited >> {log}\n",
        "bash": f'#!/bin/sh\necho begins >> {log}\nsleep 0.5\n/bin/bash "$@"\necho ends >> {log}\n',
    }.items():
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    heard: list[str] = []

    def script(past):
        heard[:] = [item.text for item in past if item.kind == "result"]
        return "Done." if heard else "$ echo first\n$ echo second"

    with ScriptedModel(script) as model:
        player = make_client("qwen", model, tmp_path, tmp_path)
        player.installed = replace(player.installed, path=f"{stand_ins}:{player.installed.path}")
        assert player.turn("Play.").failure is None
    assert ["Output: first" in heard[0], "Output: second" in heard[1]] == [True, True]
    assert log.read_text().split() == ["begins", "ends"] * 2
