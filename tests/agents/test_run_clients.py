"""`evopolicygym run` with real clients: in their sandbox, killed and resumed, as another user, with provider errors."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from evolution_script import SUBMIT, evolve
from run_helpers import (
    KEY,
    MODELS,
    RealClientRun,
    record_of,
    run_agent,
    run_command,
    run_until_time_limit,
    time_between_submissions,
)
from scripted_model import ScriptedModel
from wire_formats import Past

from process_helpers import processes_naming
from server_helpers import COMMAND

QUICK = ["codex", "claude"]
OTHERS = ("goose", "kimi", "qwen", "gemini", "opencode", "openhands")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in OTHERS]
AT_A_ALONE = "openhands"  # its tmux needs a socket with a path
ANYWHERE = (*(name for name in OTHERS if name != AT_A_ALONE), "mini-swe-agent")
TURNS = {"mini-swe-agent": 3}  # it has no sessions: a conversation for each submission
AS_NOBODY = [("codex", "B"), ("claude", "A"), *((name, level) for name in ANYWHERE for level in ("A", "B")),
             (AT_A_ALONE, "A")]  # fmt: skip
METERED = [("codex", "dollars"), ("claude", "tokens"), ("model", "dollars"), ("kimi", "tokens"), ("opencode", "tokens")]
NOBODY = 65534
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_whole_run_in_the_sandbox(name, tmp_path):
    with ScriptedModel() as model:
        real = RealClientRun(name, model)
        record = real.plays(tmp_path / "run")
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["isolation"]["agent"] in ("A", "B")
    assert len(record["turns"]) == 2
    assert record["agent"]["version"] == real.client.client.install.version
    seen = [submission["feedback_opened"] for submission in time_between_submissions(tmp_path / "run")]
    assert seen == [[], ["submit_001/summary.json"], ["submit_002/summary.json"]]
    assert not subprocess.run(["grep", "-rlF", KEY, str(tmp_path)], capture_output=True, text=True).stdout


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


KILLED = [("codex", 2), ("model", 1)]
KILLED_SLOWLY = [("codex", 1), ("claude", 1), ("claude", 2), *((name, pause) for name in OTHERS for pause in (1, 2))]


@pytest.mark.parametrize(
    ("name", "pause"), [*KILLED, *(pytest.param(*case, marks=pytest.mark.slow) for case in KILLED_SLOWLY)]
)
def test_a_run_killed_in_the_middle_of_a_turn(name, pause, tmp_path):
    """Same workspace, same budget, and the client's own session: the model hears the earlier conversation."""
    script, root = Pausing(pause), tmp_path / "run"
    with ScriptedModel(script) as model:
        real = RealClientRun(name, model)
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
def test_a_whole_run_of_an_ordinary_user(name, level):
    """The judge and all: everything that `run` starts belongs to a user who may do nothing special."""
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as folder, ScriptedModel() as model:
        os.chmod(folder, 0o777)
        record = RealClientRun(name, model).plays_as_nobody(Path(folder) / "run", "--agent-isolation", level)
        assert (Path(folder) / "run").stat().st_uid == NOBODY
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["isolation"]["agent"] == level and record["isolation"]["publishable"]
    assert [turn["failure"] for turn in record["turns"]] == [None] * TURNS.get(name, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level"), [*((name, "B") for name in (*QUICK, *ANYWHERE)), ("mini-swe-agent", "A")])
def test_a_whole_run_at_a_given_level(name, level):
    """Not in tmp_path: every pytest that starts closes the folder above it to others, the agent's user among them."""
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as folder, ScriptedModel() as model:
        record = RealClientRun(name, model).plays(Path(folder) / "run", "--agent-isolation", level)
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["isolation"]["agent"] == level
    assert [turn["failure"] for turn in record["turns"]] == [None] * TURNS.get(name, 2)


@pytest.mark.slow
def test_at_level_b_openhands_fails_and_says_why():
    """It ends with 0 before the model is asked, which is nobody's score."""
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as folder, ScriptedModel() as model:
        real = RealClientRun(AT_A_ALONE, model)
        done = run_agent(Path(folder) / "run", *real.options, "--agent-isolation", "B", **real.environment)
    record = json.loads(done.stdout)
    assert done.returncode == 5 and record["suspended"]["reason"] == "agent_never_worked" and not model.seen
    assert {turn["failure"] for turn in record["turns"]} == {"client"} and "tmux" in record["turns"][0]["message"]


class Faults:
    """Plays as ever, but the model is in trouble after the first submission: ``fault`` for so many requests."""

    def __init__(self, fault: str, requests: int, after: int = 1) -> None:
        self.model: ScriptedModel | None = None
        self.fault, self.left, self.after = fault, requests, after

    def __call__(self, history: Sequence[Past]) -> str:
        assert self.model
        is_due = self.left > 0 and sum(SUBMIT in past.text for past in history if past.kind == "call") >= self.after
        self.left -= is_due
        self.model.fault = self.fault if is_due else None
        return evolve(history)


TROUBLE = [("codex", "cut", 4, "provider"), ("claude", "hang", 1, "timeout")]
MORE_TROUBLE = [("codex", "429", 3, "rate_limit"), ("codex", "hang", 1, "timeout"), ("codex", "500", 9, "provider"),
                ("claude", "429", 4, "rate_limit"), ("claude", "500", 8, "provider"), ("kimi", "hang", 1, "timeout"),
                ("model", "429", 8, "rate_limit"), ("goose", "429", 8, "rate_limit")]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fault", "requests", "failure"),
    [*TROUBLE, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_TROUBLE)],
)
def test_provider_errors_are_waited_out(name, fault, requests, failure, tmp_path):
    """Past the patience of gateway and client: the turn fails, is repeated in the same session, and the run ends as
    ever."""
    script = Faults(fault, requests)
    with ScriptedModel(script) as model:
        script.model = model
        silence = ("--max-silence", "0.1") if fault == "hang" else ()
        record = RealClientRun(name, model).plays(tmp_path / "run", "--model-patience", "0", *silence)
    failures = [turn["failure"] for turn in record["turns"]]
    assert set(failures) == {failure, None} and failures[-1] is None
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["budget"]["charged"] == 12 and script.left == 0


def test_endless_provider_errors_suspend_the_run(tmp_path):
    """Nothing is scored; once the provider is back, the run continues in the same session."""
    script, root = Faults("429", 1000), tmp_path / "run"
    with ScriptedModel(script) as model:
        script.model = model
        real = RealClientRun("codex", model)
        little = ("--max-retries", "1", "--model-patience", "0")
        done = run_agent(root, *real.options, *little, **real.environment)
        shown = run_command([*COMMAND, "leaderboard", str(root)])
        script.left = 0
        record = real.resumes(root)
    suspended = json.loads(done.stdout)
    assert done.returncode == 5 and suspended["suspended"]["reason"] == "provider_down"
    assert [turn["failure"] for turn in suspended["turns"]] == ["rate_limit"] * 2
    assert suspended["budget"]["charged"] == 4
    assert suspended["outcome"] is None and "suspended (provider_down)" in shown.stdout + shown.stderr
    assert record["outcome"]["submission"] == 3 and record["budget"]["charged"] == 12
    assert {turn["failure"] for turn in record["turns"][2:]} == {None}


@pytest.mark.parametrize("name", ["codex", pytest.param("claude", marks=pytest.mark.slow)])
def test_a_refused_api_key_suspends_the_run(name, tmp_path):
    """Three refusals in a row are the key's; a single one, here after the run was resumed, passes."""
    script, root = Faults("401", 1000), tmp_path / "run"
    with ScriptedModel(script) as model:
        script.model = model
        real = RealClientRun(name, model)
        done = run_agent(root, *real.options, **real.environment)
        script.left = 1
        record = real.resumes(root)
    assert done.returncode == 5 and "its key or login was refused" in done.stderr and "agent check" in done.stderr
    assert [turn["failure"] for turn in json.loads(done.stdout)["turns"]] == ["authentication"] * 3
    failures = [turn["failure"] for turn in record["turns"]]
    assert script.left == 0 and set(failures[3:]) <= {"authentication", None} and failures[-1] is None
    assert record["outcome"]["submission"] == 3 and record["budget"]["charged"] == 12


def test_an_address_in_the_shell_is_used_and_named(tmp_path):
    """As `claude` itself would: a company's key must not go to the vendor."""
    with ScriptedModel() as model:
        real = RealClientRun("claude", model)
        options = ("--agent", "claude", "--model", "claude-scripted")
        done = run_agent(tmp_path / "run", *options, **real.environment, ANTHROPIC_BASE_URL=model.url)
    record = record_of(done)
    assert record["outcome"]["submission"] == 3 and record["agent"]["settings"]["base_url"] == model.url
    assert f"the model is asked at {model.url}, as ANTHROPIC_BASE_URL says" in done.stderr


class Tireless:
    """Submits once, and then never ends its turn."""

    def __call__(self, history: Sequence[Past]) -> str:
        submits = sum(SUBMIT in past.text for past in history if past.kind == "call")
        return evolve(history) if submits == 0 else "$ sleep 0.3"


class Sleepy:
    """Submits once, and then never comes back from its shell. Sees whether anybody is there of the run in ``root``."""

    def __init__(self, root: Path) -> None:
        self.root, self.saw_somebody = root, False

    def __call__(self, history: Sequence[Past]) -> str:
        self.saw_somebody |= bool(processes_naming(self.root))
        submits = sum(SUBMIT in past.text for past in history if past.kind == "call")
        return evolve(history) if submits == 0 else "$ sleep 600"


def test_a_limit_of_hours_ends_a_client_and_its_shell(tmp_path):
    script = Sleepy(tmp_path)
    with ScriptedModel(script) as model:
        real = RealClientRun("codex", model)
        record = run_until_time_limit(lambda root, hours: real.plays(root, "--max-hours", hours), tmp_path)
        assert processes_naming(tmp_path) == [] and script.saw_somebody
    assert len(record["turns"]) == 1 and record["outcome"]["kind"] == "scored" and record["budget"]["charged"] == 4


def test_a_limit_of_turns_leaves_the_rest_of_the_budget(tmp_path):
    with ScriptedModel() as model:
        record = RealClientRun("claude", model).plays(tmp_path / "run", "--max-turns", "1")
        assert processes_naming(tmp_path) == []
    assert record["times"]["closed_because"] == "limit_turns" and record["outcome"]["kind"] == "scored"
    assert [turn["failure"] for turn in record["turns"]] == [None] and record["outcome"]["budget_left"] == 8
    assert "1 turn, which is this one" in next(request["asked"] for request in model.seen if request["tools"])


PRICES = """
[models."scripted"]
input = 1000.0
output = 1000.0
cache_read = 1000.0
cache_write = 1000.0
as_of = "2026-11"
source = "a test"
"""


@pytest.mark.parametrize(
    ("name", "limit"),
    [("codex", "tokens"), ("claude", "dollars"), *(pytest.param(*case, marks=pytest.mark.slow) for case in METERED)],
)
def test_a_turn_that_reaches_its_limit_is_ended(name, limit, tmp_path):
    """The turn ends before the client does, because the client reports its use meanwhile. The run is scored."""
    (tmp_path / "prices.toml").write_text(PRICES.replace("scripted", MODELS.get(name, "scripted").rpartition("/")[2]))
    options = ("--max-tokens", "9000") if limit == "tokens" else ("--max-cost", "9")
    with ScriptedModel(Tireless()) as model:
        record = RealClientRun(name, model).plays(tmp_path / "run", *options, "--prices", str(tmp_path / "prices.toml"))
    (turn,) = record["turns"]
    assert record["times"]["closed_because"] == f"limit_{limit}" and turn["failure"] == "limit"
    assert record["outcome"]["kind"] == "scored" and record["budget"]["charged"] == 4
    assert turn["usage"]["fresh_input"] >= 7000 and turn["price"]["quoted"]["source"] == "a test"
