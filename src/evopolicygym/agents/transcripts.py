"""Reads the transcript of a turn: feedback files named to tools, where submissions were answered, tokens per request.

Clients write events as JSON lines and differ in their vocabulary. The input of a tool stands under one of
``INPUT_KEYS``; its output stands under one of ``OUTPUT_KEYS``, or in an object marked as a tool result. The agent's own
prose is neither. The rules are common to all clients; none is known by name.

Token counts of single requests are not trusted: they are used only where they add up to the turn's own meter.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from evopolicygym.agents.json_events import event_matches, values_at
from evopolicygym.files import open_file
from evopolicygym.run_paths import TRANSCRIPTS, turn_file

MAX_BYTES: Final = 256 << 20
MAX_LINE_BYTES: Final = 8 << 20  # a parsed event takes up to a hundred times the size of its line
MAX_EVENTS: Final = 500_000
REPEATED: Final = 4  # clients print a text once when it begins and again when it is complete
INPUT_KEYS: Final = frozenset({"input", "arguments", "args", "parameters", "command", "action", "calls"})
OUTPUT_KEYS: Final = frozenset(
    {"output", "aggregated_output", "observation", "result", "toolResult", "tool_use_result"}
)
OUTPUT_MARKS: Final = {"type": "tool_result", "role": "tool"}
FEEDBACK_FILE: Final = re.compile(r"\bfeedback/([\w*?\[\]{},./-]*[\w*?\]}])")
SUBMIT_ID: Final = re.compile(r"\bsubmit_([0-9]{3,6})\b")


@dataclass(frozen=True)
class Tokens:
    """Token counts that mean the same for every client. The three inputs never overlap; ``reasoning`` is part of
    ``output``. None: unknown."""

    fresh_input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None


TOKEN_KINDS: Final = tuple(field.name for field in fields(Tokens))


def sum_if_known(amounts: Iterable[int | None]) -> int | None:
    """Sum the amounts; None if any of them is None."""
    listed = list(amounts)
    return None if None in listed else sum(amount for amount in listed if amount is not None)


@dataclass(frozen=True)
class RequestRule:
    """How one family of clients reports the tokens of a single request.

    ``where``: values by which its events are recognised. ``paths``: where each kind of tokens stands. ``identity``:
    path of a value shared by all events about one request. ``late``: reported after its tools have answered.
    """

    name: str
    where: Mapping[str, str]
    paths: Mapping[str, str]
    identity: str = ""
    input_includes_cache: bool = False
    output_includes_reasoning: bool = True
    late: bool = False

    def read(self, event: Any) -> Tokens | None:
        if not event_matches(event, self.where):
            return None
        counts = {kind: _count(values_at(event, path)) for kind, path in self.paths.items()}
        if counts["fresh_input"] is None or counts["output"] is None:
            return None
        if self.input_includes_cache:
            counts["fresh_input"] -= (counts.get("cache_read") or 0) + (counts.get("cache_write") or 0)
        if not self.output_includes_reasoning:
            counts["output"] += counts.get("reasoning") or 0
        return Tokens(**counts)


BUILTIN_PATHS: Final = {kind: f"usage.{kind}" for kind in TOKEN_KINDS}
MESSAGE_PATHS: Final = {
    "fresh_input": "message.usage.input_tokens",
    "cache_read": "message.usage.cache_read_input_tokens",
    "cache_write": "message.usage.cache_creation_input_tokens",
    "output": "message.usage.output_tokens",
}
PART_PATHS: Final = {
    "fresh_input": "part.tokens.input",
    "cache_read": "part.tokens.cache.read",
    "cache_write": "part.tokens.cache.write",
    "output": "part.tokens.output",
    "reasoning": "part.tokens.reasoning",
}
ASSISTANT: Final = {"type": "assistant"}
REQUEST_RULES: Final = (
    RequestRule("builtin", ASSISTANT, BUILTIN_PATHS),
    RequestRule("message", ASSISTANT, MESSAGE_PATHS, "message.id"),
    RequestRule("message with cache", ASSISTANT, MESSAGE_PATHS, "message.id", input_includes_cache=True),
    RequestRule("part", {"type": "step_finish"}, PART_PATHS, output_includes_reasoning=False, late=True),
)
RECORDED: Final = "recorded"
RECORDED_RULE: Final = RequestRule(RECORDED, {}, BUILTIN_PATHS)  # of calls that the gateway recorded; reads no event


@dataclass(frozen=True)
class TranscriptEvent:
    """Facts of one event. ``calls_tool``: it has the input of a tool. ``feedback_files``: paths below `feedback/`
    in that input. ``submissions``: submission numbers in the output of a tool. ``requests``: identity and tokens of one
    request, by the name of the rule that read them."""

    calls_tool: bool
    feedback_files: tuple[str, ...]
    submissions: frozenset[int]
    requests: dict[str, tuple[str, Tokens]]


def _output_file(turn: int) -> str:
    return f"{TRANSCRIPTS}/{turn_file(turn, '.out')}"


def transcript_bytes(run_folder: Path, turn: int) -> int:
    """Return the size of the transcript of one turn; 0 if there is none that is read."""
    try:
        with open_file(run_folder, _output_file(turn), MAX_BYTES) as file:
            return os.fstat(file.fileno()).st_size
    except OSError:
        return 0


def read_transcript(run_folder: Path, turn: int, at_most: int = MAX_EVENTS) -> list[TranscriptEvent] | None:
    """Read the events of one turn (counted from 1). None: no transcript, or one without events."""
    try:
        with open_file(run_folder, _output_file(turn), MAX_BYTES) as file:
            return list(islice(_events(file), at_most)) or None
    except OSError:
        return None


def read_client_texts(run_folder: Path, turn: int) -> list[tuple[str, str]] | None:
    """Read what one turn's events say, in order: (`call`, input of a tool), (`result`, output of a tool) or (`text`,
    other text of the model). None: no transcript, or one without events."""
    texts: list[tuple[str, str]] = []
    try:
        with open_file(run_folder, _output_file(turn), MAX_BYTES) as file:
            for event in islice(_objects(file), MAX_EVENTS):
                with suppress(RecursionError):
                    texts += [pair for pair in _client_texts(event) if pair not in texts[-REPEATED:]]
    except OSError:
        return None
    return texts or None


def client_line_texts(line: bytes) -> list[tuple[str, str]]:
    """Return what one line of a client's output says, as ``read_client_texts`` does; (`line`, the line itself) if it
    is no JSON object."""
    try:
        event = json.loads(line) if line.lstrip().startswith(b"{") else None
        if isinstance(event, dict):
            return list(_client_texts(event))
    except (ValueError, RecursionError):
        pass
    text = line.decode(errors="replace").rstrip()
    return [("line", text)] if text else []


def _client_texts(event: Any) -> Iterator[tuple[str, str]]:
    tools = [("call" if is_input else "result", text) for is_input, text in _tool_texts(event, None)]
    yield from ((kind, text) for kind, text in tools if text.strip())
    is_users = values_at(event, "type")[:1] == ["user"] or values_at(event, "role")[:1] == ["user"]
    if not tools and not is_users:
        paths = ("text", "item.text", "part.text", "message.content.*.text", "message.content.*.thinking", "result")
        for text in (text for path in paths for text in values_at(event, path)):
            if isinstance(text, str) and text.strip():
                yield "text", text


def split_at_submissions(
    events: Sequence[TranscriptEvent], submissions: Sequence[int]
) -> list[list[TranscriptEvent]] | None:
    """Cut the events where each submission is first named by a tool; the last part follows the last submission.

    None if one of the submissions is never named.
    """
    parts: list[list[TranscriptEvent]] = [[]]
    named = 0
    for event in events:
        parts[-1].append(event)
        while named < len(submissions) and submissions[named] in event.submissions:
            named += 1
            parts.append([])
    return None if named < len(submissions) else parts


def tokens_by_part(parts: Sequence[Sequence[TranscriptEvent]], kind: str, metered: int) -> list[int] | None:
    """Split the tokens of a turn over its parts, by the first rule under which they add up to ``metered``."""
    for rule in (RECORDED_RULE, *REQUEST_RULES):
        amounts = _amounts(parts, rule, kind)
        if amounts and sum(amounts) == metered:
            return amounts
    return None


def feedback_files(inputs: Iterable[str]) -> tuple[str, ...]:
    """Return the files below `feedback/` that inputs of tools name, each once."""
    paths = (path for text in inputs for path in FEEDBACK_FILE.findall(text) if _names_a_file(path))
    return tuple(dict.fromkeys(paths))


def submission_numbers(outputs: Iterable[str]) -> frozenset[int]:
    """Return the numbers of the submissions that outputs of tools name."""
    return frozenset(int(number) for text in outputs for number in SUBMIT_ID.findall(text))


def submission_of_file(path: str) -> int:
    """Return the number of the submission whose feedback a path is in; 0 for none."""
    match = SUBMIT_ID.search(path)
    return int(match[1]) if match else 0


def _amounts(parts: Sequence[Sequence[TranscriptEvent]], rule: RequestRule, kind: str) -> list[int] | None:
    """Return the tokens of one kind in each part; None if unknown. Several events about one request count once, and a
    late report belongs to the part before."""
    requests: dict[str, tuple[int, int | None]] = {}
    for index, part in enumerate(parts):
        reported = [event.requests[rule.name] for event in part if rule.name in event.requests]
        for position, (identity, tokens) in enumerate(reported):
            made_in = index - 1 if rule.late and index and position == 0 else index
            requests.setdefault(identity or f"request {len(requests)}", (made_in, getattr(tokens, kind)))
    amounts = [0] * len(parts)
    for made_in, amount in requests.values():
        if amount is None:
            return None
        amounts[made_in] += amount
    return amounts if requests else None


def _events(file: BinaryIO) -> Iterator[TranscriptEvent]:
    for event in _objects(file):
        with suppress(RecursionError):
            yield _event(event)


def _objects(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file of lines. Other lines, and those too large or nested too deep, are skipped."""
    while line := file.readline(MAX_LINE_BYTES):
        if line.lstrip().startswith(b"{"):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event


def _event(event: Any) -> TranscriptEvent:
    inputs: list[str] = []
    outputs: list[str] = []
    for is_input, text in _tool_texts(event, None):
        (inputs if is_input else outputs).append(text)
    return TranscriptEvent(bool(inputs), feedback_files(inputs), submission_numbers(outputs), _requests(event))


def _tool_texts(value: Any, is_input: bool | None) -> Iterator[tuple[bool, str]]:
    """Yield the strings in a tool's input (True) and in its output (False)."""
    if isinstance(value, str):
        if is_input is not None:
            yield is_input, value
    elif isinstance(value, list):
        for entry in value:
            yield from _tool_texts(entry, is_input)
    elif isinstance(value, dict):
        is_child_input = False if is_input is None and _is_tool_result(value) else is_input
        for key, entry in value.items():
            yield from _tool_texts(entry, _direction(key, is_child_input))


def _is_tool_result(value: dict[str, Any]) -> bool:
    return any(value.get(key) == word for key, word in OUTPUT_MARKS.items())


def _direction(key: str, around: bool | None) -> bool | None:
    """Return whether a key holds input of a tool (True) or output (False); None if unknown. All within an output is
    output: it may quote inputs, under any key."""
    if around is False:
        return False
    return False if key in OUTPUT_KEYS else True if key in INPUT_KEYS else around


def _names_a_file(path: str) -> bool:
    """Return whether a path names a file or a pattern of files: a folder alone was listed, not opened."""
    last = path.rsplit("/", 1)[-1]
    return "." in last or bool(set("*?[{") & set(last))


def _requests(event: Any) -> dict[str, tuple[str, Tokens]]:
    requests = {}
    for rule in REQUEST_RULES:
        if tokens := rule.read(event):
            identity = values_at(event, rule.identity)[0] if rule.identity and values_at(event, rule.identity) else ""
            requests[rule.name] = (identity if isinstance(identity, str) else "", tokens)
    return requests


def _count(values: list[Any]) -> int | None:
    value = values[0] if values else None
    return value if type(value) is int and 0 <= value < 10**15 else None
