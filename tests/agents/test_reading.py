"""Usage, sessions and failures of turns, read from the output and files of clients; also hostile ones."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from evopolicygym.agents import definitions, json_events
from evopolicygym.agents.failures import FailureKind, classify
from evopolicygym.agents.json_events import LONGEST_LINE, ReadingLimit, bounded_lines
from evopolicygym.agents.turn import ProcessExit, Turn
from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.judge.ledger import Ledger
from evopolicygym.runs.agent.loop import turn_event


def read(name: str, *events, code: int | None = 0, home: Path = Path("/nonexistent"), **more) -> Turn:
    bounded_lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return definitions.load(name).read(bounded_lines, ProcessExit(code, 1.0, home, **more))


def codex(**usage):
    names = {"input": "input_tokens", "cached": "cached_input_tokens", "output": "output_tokens"}
    return {"type": "turn.completed", "usage": {names[name]: value for name, value in usage.items()}}


def test_totals_of_a_session_become_differences():
    first = read("codex", {"type": "thread.started", "thread_id": "t-1"}, codex(input=2000, cached=200, output=100))
    assert first.usage == Usage(1800, 200, None, 100) and first.session == "t-1"
    second = read("codex", codex(input=4000, cached=400, output=200), before=first.usage, session="t-1")
    assert second.usage == first.usage and second.session == "t-1"
    assert total_usage([first.usage, None, second.usage]) == Usage(3600, 400, None, 200)


def test_totals_that_shrink_begin_a_new_count():
    turn = read("codex", codex(input=1000, output=50), before=Usage(5000, output=100))
    assert turn.usage == Usage(1000, output=50)


def test_steps_are_added_up_and_reasoning_is_part_of_the_output():
    tokens = {"input": 900, "output": 43, "reasoning": 7, "cache": {"read": 100, "write": 0}}
    step = {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "stop", "tokens": tokens, "cost": 0}}
    assert read("opencode", step, step).usage == Usage(1800, 200, 0, 100, 14)


def test_a_cost_of_zero_is_unknown_and_other_costs_are_kept():
    def result(cost: float):
        figures = {"inputTokens": 1, "outputTokens": 2, "costUSD": cost}
        return {"type": "result", "model_usage_since_last_result": {"m": figures, "small.model": figures}}

    assert read("claude", result(0)).usage == Usage(2, output=4)
    assert read("claude", result(0.25)).usage == Usage(2, output=4, cost_usd=0.5)


def test_usage_from_session_files_says_so(tmp_path):
    folder = tmp_path / ".kimi-code/sessions/wd/session_1/agents/main"
    folder.mkdir(parents=True)
    record = {"type": "usage.record", "usage": {"inputOther": 900, "output": 50, "inputCacheRead": 100}}
    (folder / "wire.jsonl").write_text(2 * (json.dumps(record) + "\n") + "{torn")
    hint = {"role": "meta", "type": "session.resume_hint", "session_id": "session_1"}
    turn = read("kimi", {"role": "assistant", "content": "Hi."}, hint, home=tmp_path)
    assert turn.usage == Usage(1800, 200, None, 100, source="file") and turn.text == "Hi." and turn.failure is None
    assert read("kimi", hint, home=tmp_path, before=turn.usage).usage == Usage(0, 0, None, 0, source="file")


def test_session_files_are_not_trusted(tmp_path):
    folder = tmp_path / "home/.kimi-code/sessions/wd/session_1/agents"
    for name in ("pipe", "link", "deep"):
        (folder / name).mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text(json.dumps({"type": "usage.record", "usage": {"inputOther": 9, "output": 9}}))
    os.mkfifo(folder / "pipe/wire.jsonl")
    (folder / "link/wire.jsonl").symlink_to(outside)
    (folder / "deep/wire.jsonl").write_text("{" * 100_000 + "\n" + '{"a":' * 100_000)
    hint = {"type": "session.resume_hint", "session_id": "session_1"}
    assert read("kimi", hint, home=tmp_path / "home").usage is None


def wire(home: Path, agent: str = "main") -> Path:
    """The session file of an agent of kimi's session_1."""
    folder = home / ".kimi-code/sessions/wd/session_1/agents" / agent
    folder.mkdir(parents=True)
    return folder / "wire.jsonl"


HINT = {"type": "session.resume_hint", "session_id": "session_1"}
USED = json.dumps({"type": "usage.record", "usage": {"inputOther": 9, "output": 9}}) + "\n"


def test_a_good_session_file_is_found_among_bad_ones(tmp_path):
    """Sparse ones, a folder of that name, folders that are links and closed ones, and a hundred without an end."""
    with open(wire(tmp_path, "sparse"), "wb") as sparse:
        sparse.truncate(1 << 43)
    with open(wire(tmp_path, "zeros"), "wb") as zeros:
        zeros.truncate(64 << 20)
    wire(tmp_path, "folder").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "wire.jsonl").write_text(USED)
    agents = tmp_path / ".kimi-code/sessions/wd/session_1/agents"
    (agents / "link").symlink_to(outside)
    (agents / "zero").symlink_to("/dev/zero")
    (agents / os.fsdecode(b"\xff")).mkdir(mode=0o000)
    wire(tmp_path).write_text(USED)
    assert read("kimi", HINT, home=tmp_path).usage == Usage(9, output=9, source="file")


@pytest.mark.parametrize("home", ["link", "pipe", "file"])
def test_an_invalid_home_has_no_usage(home, tmp_path):
    wire(tmp_path / "real").write_text(USED)
    path = tmp_path / "home"
    {"link": lambda: path.symlink_to(tmp_path / "real"), "pipe": lambda: os.mkfifo(path),
     "file": lambda: path.write_text(USED)}[home]()  # fmt: skip
    assert read("kimi", HINT, home=path).usage is None
    assert read("kimi", HINT, home=tmp_path / "real").usage, "control"


def test_patterns_of_session_files(tmp_path):
    for name in ("a.jsonl", "x/b.jsonl", "x/y/c.jsonl", "x/y/c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"name": name}))

    def names(pattern: str) -> list[str]:
        return [event["name"] for event in json_events.session_events(tmp_path, pattern, "c", ReadingLimit())]

    assert names("*.jsonl") == ["a.jsonl"] and names("x/*/${session}.json") == ["x/y/c.json"]
    assert names("**/*.jsonl") == ["a.jsonl", "x/b.jsonl", "x/y/c.jsonl"]
    assert names("../*/a.jsonl") == names("/etc/*") == names("x/../a.jsonl") == names("${other}") == []


def test_reading_is_bounded(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.jsonl").write_text("{}\n" * 10)

    def count(**limit: int) -> int:
        return len(list(json_events.session_events(tmp_path, "*.jsonl", "", ReadingLimit(**limit))))

    assert (count(), count(lines=7), count(files=2), count(entries=0)) == (50, 7, 20, 0)
    assert 0 < count(characters=50) < 20
    for number in range(3):
        (tmp_path / f"{number}.json").write_text("{}")
    assert len(list(json_events.session_events(tmp_path, "*.json", "", ReadingLimit(characters=4)))) == 2


def test_a_line_that_is_too_long_is_skipped():
    long = '{"a": "' + "x" * LONGEST_LINE + '"}'
    text = io.StringIO(f"before\n{long}\nafter\n{long}")
    assert list(bounded_lines(text, ReadingLimit())) == ["before\n", "after\n"]


HOSTILE = [
    '{"type": "result", "result": "\\ud800 half an emoji", "session_id": "\\ud800"}',
    '{"type": "result", "result": ' + "[" * 900 + "]" * 900 + "}",
    '{"type": "result", "result": ' + "[" * 100_000,
    '{"type": "result", "model_usage_since_last_result": {"m": {"inputTokens": ' + "9" * 5000 + "}}}",
    '{"type": "result", "model_usage_since_last_result": {"m": {"inputTokens": NaN, "outputTokens": Infinity}}}',
    '{"type": "result", "model_usage_since_last_result": {"a": {"inputTokens": 1, "outputTokens": 1, "costUSD": 1e308},'
    ' "b": {"inputTokens": 1, "outputTokens": 1, "costUSD": 1e308}}}',
    "\0" * 1000,
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_any_output_can_be_recorded(line, tmp_path):
    """Any output of a client can be written to a ledger and read again."""
    turn = read("claude", line)
    judge_ledger = Ledger(tmp_path / "ledger.jsonl")
    judge_ledger.append(turn_event(turn, 0, None, None))
    assert [line.kind for line in Ledger(tmp_path / "ledger.jsonl").recover()] == ["turned"]


def test_sums_beyond_the_range_are_unknown():
    """Each is possible, their sum is not."""
    step = {"type": "step_finish", "sessionID": "s", "part": {"tokens": {"input": 10**15 - 1, "output": 1}}}
    turn = read("opencode", *[step] * 20_000)
    assert turn.usage and turn.usage.fresh_input is None and turn.usage.output == 20_000


@pytest.mark.parametrize("session", ["../../etc", "-rf", "a b", "x" * 200, ""])
def test_a_session_id_that_looks_like_an_option_is_refused(session):
    assert read("codex", {"type": "thread.started", "thread_id": session}).session is None


@pytest.mark.parametrize("figure", [-1, 1.5, "7", True, 10**20, None, [], {}])
def test_invalid_numbers_are_unknown(figure):
    assert (
        read("codex", {"type": "turn.completed", "usage": {"input_tokens": figure, "output_tokens": 1}}).usage is None
    )


FAILURES = [
    ("codex", {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}}, 1, "authentication"),
    ("codex", {"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429"}}, 1, "rate_limit"),
    ("codex", {"type": "turn.failed", "error": {"message": "We're experiencing high demand"}}, 1, "provider"),
    ("codex", {"type": "thread.started", "thread_id": "t"}, 0, "client"),  # no last event
    ("claude", {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 500"}, 1, "provider"),
    ("claude", {"type": "result", "subtype": "error_max_turns", "is_error": True}, 1, "turn_limit"),
    ("qwen", {"type": "system", "subtype": "init", "session_id": "q"}, 53, "turn_limit"),
    ("goose", {"type": "complete"}, 3, "client"),  # done, but the exit code says otherwise
]


@pytest.mark.parametrize(("name", "event", "code", "kind"), FAILURES)
def test_failures_have_a_kind(name, event, code, kind):
    failure = read(name, event, code=code).failure
    assert failure and failure.kind == kind


def test_goose_fails_with_exit_code_0():
    text = "Ran into this error: Rate limit exceeded: slow down."
    message = {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}
    failure = read("goose", message, {"type": "complete", "input_tokens": 0, "output_tokens": 0}).failure
    assert failure and failure.kind is FailureKind.RATE_LIMIT


def test_a_client_killed_while_waiting_for_its_provider():
    retry = {"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit"}
    talk = {"type": "assistant", "message": "HTTP 500 is what my notes say"}
    assert read("claude", talk, retry, code=None).failure.kind is FailureKind.RATE_LIMIT
    assert read("claude", retry, talk, code=None).failure.kind is FailureKind.TIMEOUT
    assert read("codex", code=None).failure.kind is FailureKind.TIMEOUT


def test_a_warning_is_not_a_failure():
    warning = {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found: 401"}}
    assert read("codex", warning, codex(input=1, output=1)).failure is None


def test_plain_lines_among_the_events():
    message = {"kind": "MessageEvent", "source": "agent", "llm_message": {"content": [{"text": "Done."}]}}
    turn = read("openhands", message, "Conversation ID: 0123abcd-ef", "{not json", "[1, 2]", "")
    assert turn.session == "0123abcd-ef" and turn.text == "Done." and turn.failure is None


def test_a_turn_without_a_response_of_the_model_failed():
    asked = {"kind": "MessageEvent", "source": "user"}
    turn = read("openhands", asked, "Conversation ID: 0123abcd-ef", stderr_tail="LibTmuxException: Permission denied\n")
    assert turn.failure and turn.failure.kind is FailureKind.CLIENT and "LibTmuxException" in turn.failure.text


def test_a_command_is_started_again_only_after_a_failure():
    client = definitions.command(["true"])
    turn = client.read(["working\n", "done\n", "\n"], ProcessExit(0, 1.0, Path("/nonexistent")))
    assert turn.stop and turn.text == "done" and turn.failure is None and turn.usage is None
    failed = client.read([], ProcessExit(3, 1.0, Path("/nonexistent"), "no such file\n"))
    assert failed.failure and failed.failure.kind is FailureKind.CLIENT and failed.failure.text == "no such file"
    assert not failed.stop
    failed = client.read(["working\n", "cannot open data.csv\n"], ProcessExit(3, 1.0, Path("/nonexistent")))
    assert failed.failure and failed.failure.text == "cannot open data.csv"


@pytest.mark.parametrize(
    "words",
    [
        'File "agent.py", line 401, in <module>\nValueError: no such gain',
        "    at main (/agent/main.mjs:429:12)",
        "ModuleNotFoundError: No module named 'cma'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'rate limit.csv'",
        "case 401 failed after 503 steps: mean return -500",
        "openai.APIConnectionError: Connection error.",
    ],
)
def test_what_a_program_prints_is_shown_and_not_classified(words):
    """It may be its own words or those of a tool: only the exit codes 75 and 77 say that the model was in trouble."""
    program = definitions.command(["true"])
    failure = program.read([], ProcessExit(1, 1.0, Path("/nonexistent"), words)).failure
    assert failure and failure.kind is FailureKind.CLIENT and failure.text == words.strip()
    kinds = [program.read([], ProcessExit(code, 1.0, Path("/nonexistent"), words)).failure.kind for code in (75, 77)]
    assert kinds == [FailureKind.PROVIDER, FailureKind.AUTHENTICATION]
    assert program.read([], ProcessExit(None, 1.0, Path("/nonexistent"), words)).failure.kind is FailureKind.TIMEOUT


ERRORS = [
    ("API Error: Couldn't connect through your proxy", "provider"),
    ("API Error: 529 overloaded", "provider"),
    ("API Error: Request rejected (429) · slow down", "rate_limit"),
    ("unexpected status 502 Bad Gateway", "provider"),
    ("getaddrinfo ENOTFOUND api.example.com", "provider"),
    ("InternalServerError", "provider"),
    ("litellm.ServiceUnavailableError: no answer", "provider"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
    ("provider.auth_error: 401 wrong", "authentication"),
    ('{"name": "APIError", "data": {"message": "no", "statusCode": 401}}', "authentication"),
    ("API Error: 400 the prompt is too long: 500 tokens over", "client"),
    ("status code 404: the model `scripted-500` does not exist", "client"),
    ("the policy of case 401 took 503 steps", "client"),
    ("ModuleNotFoundError: No module named 'mcp'", "client"),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_errors_of_a_client_have_a_kind(error, kind):
    assert classify(error) == kind


def test_an_unknown_error_of_an_api_is_the_providers():
    ended = {"type": "result", "is_error": True, "result": "API Error: something new"}
    assert read("claude", {**ended, "terminal_reason": "api_error"}, code=1).failure.kind is FailureKind.PROVIDER
    assert read("claude", ended, code=1).failure.kind is FailureKind.CLIENT
    refused = {**ended, "terminal_reason": "api_error", "result": "API Error: 400 the prompt is too long"}
    assert read("claude", refused, code=1).failure.kind is FailureKind.CLIENT


def test_goose_and_its_model_use_the_same_words():
    """Its errors are messages of the assistant; those of the model name the model."""
    content = [{"type": "text", "text": "Ran into this error: 401 Unauthorized, says the log of case 401."}]
    message = {"role": "assistant", "content": content, "metadata": {"userVisible": True}}
    done = {"type": "complete", "input_tokens": 1, "output_tokens": 1}
    assert read("goose", {"type": "message", "message": message}, done).failure.kind is FailureKind.AUTHENTICATION
    message["metadata"] = {"inference": {"provider": "openai", "requestedModel": "m"}}
    assert read("goose", {"type": "message", "message": message}, done).failure is None


def test_errors_on_standard_error_are_found_by_the_clients_own_words():
    begun = {"role": "meta", "type": "system.version", "version": "2.1.0"}
    error = "$ ls\n401 files\nerror: failed to run prompt: provider.auth_error: 401 no\nSee log: kimi-code.log\n"
    assert read("kimi", begun, code=1, stderr_tail=error).failure.kind is FailureKind.AUTHENTICATION
    assert read("kimi", begun, code=1, stderr_tail="Unauthorized: 401 files\n").failure.kind is FailureKind.CLIENT
    waits = "Attempt 1 failed with status 500. Retrying\nAttempt 2 failed with status 429. Retrying with backoff...\n"
    assert read("gemini", code=None, stderr_tail=waits).failure.kind is FailureKind.RATE_LIMIT
    waits = "Attempt 5 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request\n"
    assert read("gemini", code=None, stderr_tail=waits).failure.kind is FailureKind.PROVIDER


def test_session_and_usage_of_a_killed_client_are_read_from_its_files(tmp_path):
    """Its session from an index, its usage from the session; of a message in several parts only the last counts."""
    index = tmp_path / ".kimi-code" / "session_index.jsonl"
    index.parent.mkdir()
    index.write_text("".join(json.dumps({"sessionId": name}) + "\n" for name in ("old", "new")))
    assert read("kimi", {"role": "assistant", "content": "hm"}, code=None, home=tmp_path).session == "new"
    rows = [("m1", 10), ("m1", 50), ("m2", 50)]
    session = tmp_path / ".claude" / "projects" / "x" / "s-1.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text("".join(json.dumps(_row(*row)) + "\n" for row in rows))
    begun = {"type": "system", "subtype": "init", "session_id": "s-1"}
    cut = read("claude", begun, code=None, home=tmp_path, session="s-1", before=Usage(900, 999, 0, 50))
    assert cut.usage == Usage(900, 0, 0, 50, source="file")


def _row(name: str, output: int) -> dict:
    usage = {"input_tokens": 900, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0}
    return {"type": "assistant", "message": {"id": name, "usage": usage | {"output_tokens": output}}}


def test_usage_of_an_interrupted_turn_of_codex(tmp_path):
    folder = tmp_path / ".codex" / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True)
    totals = {"input_tokens": 3000, "cached_input_tokens": 300, "output_tokens": 150, "reasoning_output_tokens": 21}
    event = {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": totals}}}
    (folder / "rollout-2026-t-1.jsonl").write_text(json.dumps(event) + "\n")
    begun = {"type": "thread.started", "thread_id": "t-1"}
    cut = read("codex", begun, code=None, home=tmp_path, before=Usage(900, 100, None, 50, 7))
    assert cut.usage == Usage(1800, 200, None, 100, 14, source="file")
