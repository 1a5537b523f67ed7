"""What happened between submissions, from transcripts that real clients wrote while a scripted model played.

The script reads AGENTS.md, writes a policy, submits, and ends its first turn; in the second it reads the feedback of
the last submission, writes, submits, reads, writes, submits. Every request is 1000 tokens in (100 cached), 50 out.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from model_chats import APIS, ModelChat
from run_folders import source, write_run
from scripted_model import ScriptedModel

from evopolicygym.agents.transcripts import read_transcript
from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.loading import open_run_folder
from evopolicygym.analysis.spending import TokenPrecision, effort_by_submission
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.run_record import load

RECORDED = Path(__file__).parent / "transcripts"
CLIENTS = sorted(path.name for path in RECORDED.iterdir())
CACHE_WRITE = {"claude": 11, "qwen": None, "gemini": None}
REASONING = {"claude": 0, "codex": 7, "gemini": 7, "opencode": 7, "openhands": 7}
OUTPUT = {"gemini": 57}
BY_REQUEST = {  # which kinds of tokens single requests tell so that they add up
    "opencode": {"fresh_input", "cache_read", "cache_write", "output", "reasoning"},
    "qwen": {"fresh_input", "cache_read", "output"},
    "claude": {"fresh_input", "cache_read", "cache_write"},
}
FILES = {1: (), 2: ("submit_001/summary.json",), 3: ("submit_002/summary.json",)}


def each(client: str) -> dict[str, int | None]:
    """Tokens of one request, as the turn is metered."""
    return {
        "fresh_input": 900, "cache_read": 100, "cache_write": CACHE_WRITE.get(client, 0),
        "output": OUTPUT.get(client, 50), "reasoning": REASONING.get(client),
    }  # fmt: skip


def a_run(folder: Path, turns: list[tuple[int, dict | None]], transcripts: Path | None = None) -> Path:
    """``turns``: how many submissions there were at the end of each, and its usage."""
    made = write_run(folder, [source(f"x = {i}\n", validation=float(i)) for i in range(turns[-1][0])])
    made.facts["turns"] = [
        {"exit_code": 0, "wall_s": 1.0, "submissions": many, "failure": None, "stop": False, "model": None,
         "usage": usage, "price": None}
        for many, usage in turns
    ]  # fmt: skip
    made.rewrite()
    if transcripts:
        shutil.copytree(transcripts, folder / "logs" / "agent")
    return folder


def played(folder: Path, client: str) -> Path:
    usage = [{kind: n * many if n is not None else None for kind, n in each(client).items()} for many in (4, 7)]
    return a_run(folder, [(1, usage[0]), (3, usage[1])], RECORDED / client)


@pytest.mark.parametrize("client", CLIENTS)
def test_opened_files_are_read_from_the_tool_calls_of_each_client(client, tmp_path):
    efforts = effort_by_submission(load(played(tmp_path / "run", client)), tmp_path / "run")
    assert {number: effort.feedback_opened for number, effort in efforts.items()} == FILES


@pytest.mark.parametrize("client", CLIENTS)
def test_tokens_are_split_by_request_where_requests_add_up(client, tmp_path):
    """Three requests until the first submission; its turn ends with a fourth, which is the next one's. One more to
    read, to write and to submit each time, and last words that are nobody's."""
    efforts = effort_by_submission(load(played(tmp_path / "run", client)), tmp_path / "run")
    metered_kinds = BY_REQUEST.get(client, set())
    for number, requests in ((1, 3), (2, 4), (3, 3)):
        tokens = efforts[number].tokens
        reported = {kind: getattr(tokens, kind) for kind in metered_kinds} if tokens else {}
        assert reported == {kind: requests * each(client)[kind] for kind in metered_kinds}
    coarse = {kind for kind, n in each(client).items() if n is not None} - metered_kinds
    first = efforts[1]
    assert {kind: getattr(first.tokens, kind) for kind in coarse} == {kind: 4 * each(client)[kind] for kind in coarse}
    assert first.tokens_by == ("mixed" if coarse and metered_kinds else "turn" if coarse else "request")
    assert all(getattr(efforts[2].tokens, kind, None) is None for kind in coarse)


def test_token_counts_that_contradict_the_record_are_not_used(tmp_path):
    run = played(tmp_path / "run", "opencode")
    facts = json.loads((run / "run.json").read_text())
    facts["turns"][1]["usage"]["output"] += 1  # a request that the client does not show
    (run / "run.json").write_text(json.dumps(facts))
    efforts = effort_by_submission(load(run), run)
    assert efforts[2].tokens.output is None and efforts[2].tokens.fresh_input == 4 * 900


def test_tokens_of_a_turn_belong_to_its_only_submission(tmp_path):
    """A turn without any belongs to the next; of a turn with two nobody knows who used what."""
    usage = [{"fresh_input": n, "output": 1} for n in (10, 20, 40, 80)]
    run = a_run(tmp_path / "run", [(0, usage[0]), (1, usage[1]), (3, usage[2]), (4, usage[3])])
    efforts = effort_by_submission(load(run), run)
    assert [effort.tokens.fresh_input if effort.tokens else None for effort in efforts.values()] == [30, None, None, 80]
    assert [effort.tokens_by for effort in efforts.values()] == ["turn", None, None, "turn"]
    assert {effort.feedback_opened for effort in efforts.values()} == {None}
    reported = diagnose(open_run_folder(run)).spending.by_turn
    assert [(turn.submissions, turn.tokens.fresh_input) for turn in reported] == [
        ((), 10),
        ((1,), 20),
        ((2, 3), 40),
        ((4,), 80),
    ]


def test_a_turn_without_usage_is_unknown(tmp_path):
    run = a_run(
        tmp_path / "run", [(1, {"fresh_input": 5, "output": 1}), (2, None), (3, {"fresh_input": 7, "output": 1})]
    )
    efforts = effort_by_submission(load(run), run)
    assert [effort.tokens.fresh_input if effort.tokens else None for effort in efforts.values()] == [5, None, 7]


def lines(*events: tuple[str, str]) -> str:
    event_makers = {"told": lambda text: {"type": "tool_use", "input": {"command": text}},
            "answered": lambda text: {"type": "tool_result", "content": text},
            "said": lambda text: {"type": "text", "text": text}}  # fmt: skip
    return "".join(json.dumps(event_makers[kind](text)) + "\n" for kind, text in events)


def write_turns(folder: Path, *texts: str) -> Path:
    folder.mkdir(parents=True)
    for number, text in enumerate(texts, 1):
        (folder / f"turn_{number:03}.out").write_text(text)
    return folder


def opened(tmp_path: Path, submissions: list[int], *texts: str) -> list[tuple[str, ...] | None]:
    turns = write_turns(tmp_path / "transcripts", *texts)
    run = a_run(tmp_path / "run", [(many, None) for many in submissions], turns)
    return [submission.feedback_opened for submission in effort_by_submission(load(run), run).values()]


def test_which_feedback_files_count_as_opened(tmp_path):
    text = lines(
        ("told", "ls feedback/ feedback/submit_000"), ("said", "I shall read feedback/notes.txt for submit_001"),
        ("told", "python3 submit.py 0-3; cat feedback/submit_001/errors.txt"), ("answered", "submit_001: ok"),
        ("told", "head /run/workspace/feedback/*/episodes/ep_000/trajectory.jsonl"),
        ("told", "python3 submit.py 0"), ("answered", "submit_002: ok"),
    )  # fmt: skip
    assert opened(tmp_path, [2], text) == [(), ("submit_001/errors.txt", "*/episodes/ep_000/trajectory.jsonl")]


def test_a_submission_that_is_not_in_the_transcript_makes_it_unknown(tmp_path):
    """Its output was thrown away, so that nobody knows which calls came before it; the turn after it is seen."""
    first = lines(("told", "cat feedback/submit_001/summary.json; python3 submit.py 0 > /dev/null"), ("answered", ""))
    second = lines(("told", "python3 submit.py 0"), ("answered", "submit_002: ok"), ("told", "submit.py"),
                   ("answered", "submit_003: ok"))  # fmt: skip
    assert opened(tmp_path, [1, 3], first, second) == [None, None, ()]


@pytest.mark.parametrize(
    "text", ["", "plain talk of feedback/submit_001/summary.json\n", "{broken\n[1]\n", '{"a": 1}\n']
)
def test_a_transcript_that_shows_no_calls_is_unknown(text, tmp_path):
    assert opened(tmp_path, [1], text) == [None]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "logs" / "agent").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text(lines(("told", "x")))
    (tmp_path / "logs" / "agent" / "turn_001.out").symlink_to(tmp_path / "elsewhere")
    assert read_transcript(tmp_path, 1) is None


def test_deep_nesting_breaks_nothing(tmp_path):
    deep = '{"input":' + "[" * 100_000 + "]" * 100_000 + "}\n"
    assert opened(tmp_path, [1], deep) == [None]


@pytest.mark.parametrize("api", APIS)
def test_recorded_calls_give_tokens_and_files_for_every_client(api, tmp_path):
    """Whatever the client prints: nothing here. Tokens are known by request, and files by what the tools were told."""
    metered = {"fresh_input": 900, "cache_read": 100, "output": 50, "reasoning": 7}
    usage = [{kind: n * many for kind, n in metered.items()} for many in (4, 7)]
    root = a_run(tmp_path / "run", [(1, usage[0]), (3, usage[1])])
    submitted: list[str] = []

    def result(command: str) -> str:
        if "submit.py 0-3" not in command:
            return "done"
        submitted.append(command)
        return f"submit_{len(submitted):03}: ok\nremaining budget: {12 - 4 * len(submitted)} episodes"

    with ScriptedModel() as model:
        chat = ModelChat(model, api)
        chat.prompt("Begin.", result)
        chat.prompt("Continue.", result)
    store = ExchangeStore(root, {})
    for exchange in chat.exchanges:
        store.append(replace(exchange, turn=1 if exchange.number <= 4 else 2))
    store.close()
    efforts = effort_by_submission(load(root), root)
    assert {number: effort.feedback_opened for number, effort in efforts.items()} == FILES
    assert {number: effort.tokens_by for number, effort in efforts.items()} == dict.fromkeys(
        (1, 2, 3), TokenPrecision.REQUEST
    )
    counts = {number: {kind: getattr(effort.tokens, kind) for kind in metered} for number, effort in efforts.items()}
    expected = ((1, 3), (2, 4), (3, 3))
    assert counts == {number: {kind: requests * n for kind, n in metered.items()} for number, requests in expected}
