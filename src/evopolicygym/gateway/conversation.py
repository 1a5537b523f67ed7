"""One conversation from the recorded calls of a run, whatever the client and its API.

Every call repeats the history. A call continues the thread whose history it repeats; what it adds was said or done
since the last answer. Sub-agents and side calls (a title, a summary) have other histories, and become threads of their
own.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, takewhile
from typing import Final

from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.messages import MessagePart, MessageRole, ModelRequest, PartKind, read_answer, read_request

LIVE_THREADS: Final = 64  # threads that a call may continue; older ones are over
MAX_KEPT: Final = 512 << 20  # bytes of all threads: a small recording can have endless bodies that share chunks
PART_COST: Final = 512  # bytes that a part counts beside its text, in a step or in a history: it may be empty
VARYING: Final = re.compile(r"[0-9a-f]+|\s+")
SIGNATURE: Final = 2000  # characters of a system prompt that identify the purpose of an agent


class StepKind(StrEnum):
    """Author or kind of a step of a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUBMISSION = "submission"
    NOTE = "note"


@dataclass(frozen=True)
class ConversationStep:
    """A message, a submission or a note. ``at`` is Unix time. The other facts are of an ASSISTANT step, an answer:
    ``call`` is the number of the recorded call, ``seconds`` what it took."""

    kind: StepKind
    at: float
    parts: tuple[MessagePart, ...] = ()
    turn: int = 0
    call: int = 0
    model: str = ""
    seconds: float = 0.0
    usage: Usage | None = None
    submission: int = 0

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.kind is PartKind.TEXT)


class ThreadKind(StrEnum):
    """Kind of a thread. MAIN: the agent that was prompted. AGENT: a sub-agent with tools. SIDE: a call without
    tools."""

    MAIN = "main"
    AGENT = "agent"
    SIDE = "side"


@dataclass
class ConversationThread:
    """Calls that share a history. ``tools``: names of the tools that the model was offered."""

    kind: ThreadKind = ThreadKind.MAIN
    tools: tuple[str, ...] = ()
    steps: list[ConversationStep] = field(default_factory=list)


@dataclass(frozen=True)
class SubmissionMark:
    """A submission for its place in a conversation: its number, when it was charged, and a line about it."""

    number: int
    at: float
    text: str


@dataclass(frozen=True)
class ModelConversation:
    """All threads of a run, in the order of their first calls; what is missing is in ``notes``. ``source``: where it
    was read from."""

    threads: tuple[ConversationThread, ...]
    notes: tuple[str, ...] = ()
    source: str = "gateway"

    @property
    def usage(self) -> Usage | None:
        """Tokens of all answers; a lower bound if some did not report theirs."""
        return total_usage(step.usage for thread in self.threads for step in thread.steps)


def read_conversation(exchanges: Iterable[Exchange], submissions: Sequence[SubmissionMark] = ()) -> ModelConversation:
    """Return the conversation that recorded exchanges are."""
    reader, notes = ConversationReader(), []
    for exchange in exchanges:
        reader.add(exchange)
        if reader.is_full:
            notes.append(f"the conversation is too large; the calls after number {exchange.number} were not read")
            break
    done = reader.threads()
    place_submissions(done, submissions)
    return ModelConversation(done, tuple(notes))


class ConversationReader:
    """Takes up exchanges one by one, for as long as the conversation is small enough to be kept."""

    def __init__(self) -> None:
        self._threads: list[_OpenThread] = []
        self._kept = 0

    @property
    def is_full(self) -> bool:
        return self._kept > MAX_KEPT

    def add(self, exchange: Exchange) -> list[ConversationStep]:
        """Return the steps that an exchange adds to the conversation."""
        if self.is_full or not exchange.api.is_conversation:
            return []
        request = read_request(exchange)
        thread = _continued(self._threads, request)
        if thread is None:
            thread = _OpenThread(request)
            self._threads.append(thread)
        before = len(thread.thread.steps)
        self._kept += thread.add(exchange, request)
        return thread.thread.steps[before:]

    def threads(self) -> tuple[ConversationThread, ...]:
        _set_kinds(self._threads)
        return tuple(thread.thread for thread in self._threads)


class _OpenThread:
    """A thread that the next call may continue. ``keys``: of its whole history, with the last answer."""

    def __init__(self, request: ModelRequest) -> None:
        self.thread = ConversationThread(tools=request.tools)
        self.signature = _signature(request)
        self.keys: list[tuple[str, ...]] = []
        self.asked = 0  # how many of the keys are of the last request
        self.last_answer = ""
        self.calls = 0
        self.longest = 0  # bytes of the longest request, with the cost of its parts

    def add(self, exchange: Exchange, request: ModelRequest) -> int:
        """Take up a call, and return how many bytes more are kept in memory, at most."""
        parts = [part for part in request.parts if part.role is not MessageRole.SYSTEM]
        keys = _keys(parts)
        if request.previous and request.previous == self.last_answer:
            added, keys = parts, self.keys + keys
        else:
            added = _after(parts, _common(self.keys, keys))
        if self.calls:  # what the model said is known from its answers, as it was
            added = [part for part in added if part.role is not MessageRole.ASSISTANT]
        elif system := [part for part in request.parts if part.role is MessageRole.SYSTEM]:
            self._append(StepKind.SYSTEM, exchange, system)
        for role, group in groupby(added, lambda part: part.role):
            self._append(StepKind(role), exchange, list(group))
        answer = read_answer(exchange)
        self._answer(exchange, answer.parts, request.model)
        if error := _failure(exchange, answer.error):
            note = MessagePart(MessageRole.SYSTEM, PartKind.TEXT, error)
            self._append(StepKind.NOTE, exchange, [note], exchange.started_at + exchange.duration_s)
        self.keys, self.asked = keys + _keys(answer.parts), len(keys)
        self.last_answer, self.calls = answer.id, self.calls + 1
        grown = max(0, len(exchange.request_body) + PART_COST * len(self.keys) - self.longest)
        self.longest += grown
        said = sum(PART_COST + len(part.text) for part in (*added, *answer.parts))
        return grown + len(exchange.response_body) + said

    def _append(self, kind: StepKind, exchange: Exchange, parts: list[MessagePart], at: float | None = None) -> None:
        when = exchange.started_at if at is None else at
        self.thread.steps.append(ConversationStep(kind, when, tuple(parts), exchange.turn))

    def _answer(self, exchange: Exchange, parts: tuple[MessagePart, ...], model: str) -> None:
        if not parts and exchange.usage is None:
            return
        step = ConversationStep(
            StepKind.ASSISTANT,
            exchange.started_at + exchange.duration_s,
            parts,
            exchange.turn,
            exchange.number,
            exchange.model or model,
            exchange.duration_s,
            exchange.usage,
        )
        self.thread.steps.append(step)


def _failure(exchange: Exchange, error: str) -> str:
    if exchange.status == 0:
        return f"call {exchange.number} got no answer"
    if exchange.status >= 400:
        return f"call {exchange.number} failed with HTTP {exchange.status}: {error}"
    if not exchange.is_complete:
        return f"the answer to call {exchange.number} was cut"
    return f"call {exchange.number} failed: {error}" if error else ""


def _continued(threads: list[_OpenThread], request: ModelRequest) -> _OpenThread | None:
    """Return the thread whose history a request repeats, the longest one first; None for a new conversation."""
    keys = _keys(part for part in request.parts if part.role is not MessageRole.SYSTEM)
    signature = _signature(request)
    best, most = None, 0
    for thread in reversed(threads[-LIVE_THREADS:]):
        if request.previous and request.previous == thread.last_answer:
            return thread
        common = _common(thread.keys, keys)
        repeats = common >= min(thread.asked, len(keys)) or 2 * common > thread.asked
        is_same = thread.signature == signature or common > 2
        if repeats and is_same and common > most:
            best, most = thread, common
    return best


def _keys(parts: Iterable[MessagePart]) -> list[tuple[str, ...]]:
    """Return the keys by which histories are compared, without reasoning: most clients do not send it back."""
    return [part.key for part in parts if part.kind is not PartKind.REASONING]


def _common(before: Sequence[tuple[str, ...]], now: Sequence[tuple[str, ...]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))


def _after(parts: Sequence[MessagePart], common: int) -> list[MessagePart]:
    """Return the parts behind the first ``common`` ones, not counting reasoning."""
    for index, part in enumerate(parts):
        if common == 0:
            return list(parts[index:])
        common -= part.kind is not PartKind.REASONING
    return []


def _signature(request: ModelRequest) -> tuple[bool, str]:
    """Return what distinguishes agents of a client: whether they have tools, and their system prompt (no numbers)."""
    return bool(request.tools), VARYING.sub(_without_number, request.system[: 4 * SIGNATURE])[:SIGNATURE]


def _without_number(match: re.Match[str]) -> str:
    """Replace spaces and hexadecimal numbers; words of the letters a to f stay."""
    return match[0] if match[0].isalpha() else " "


def _set_kinds(threads: Sequence[_OpenThread]) -> None:
    """Set the kind of each thread. The main agent is the one with most calls; it may have several threads."""
    calls: dict[tuple[bool, str], int] = {}
    for thread in threads:
        calls[thread.signature] = calls.get(thread.signature, 0) + thread.calls
    main = max(calls, key=lambda signature: (calls[signature], signature[0]), default=None)
    for thread in threads:
        others = ThreadKind.AGENT if thread.thread.tools else ThreadKind.SIDE
        thread.thread.kind = ThreadKind.MAIN if thread.signature == main else others


def place_submissions(threads: Sequence[ConversationThread], submissions: Sequence[SubmissionMark]) -> None:
    """Put each submission behind the last step before it, in the thread that was answered last among those with tools.
    Sorted once, not searched for each: a forged record may have very many submissions and calls."""
    candidates = [thread for thread in threads if thread.kind is not ThreadKind.SIDE] or list(threads)
    answers = sorted(
        (step.at, -number)
        for number, thread in enumerate(candidates)
        for step in thread.steps
        if step.kind is StepKind.ASSISTANT
    )
    waiting: dict[int, list[SubmissionMark]] = {}
    for submission in sorted(submissions, key=lambda mark: mark.at) if candidates else ():
        position = bisect(answers, (submission.at, 1))
        waiting.setdefault(-answers[position - 1][1] if position else 0, []).append(submission)
    for number, marks in waiting.items():
        candidates[number].steps[:] = _merged(candidates[number].steps, marks)


def _merged(steps: Sequence[ConversationStep], marks: Sequence[SubmissionMark]) -> Iterator[ConversationStep]:
    """Yield the steps, and each submission before the first step that is later. The marks are in order of time."""
    placed = 0
    for step in steps:
        while placed < len(marks) and marks[placed].at < step.at:
            yield _submission_step(marks[placed])
            placed += 1
        yield step
    yield from map(_submission_step, marks[placed:])


def _submission_step(mark: SubmissionMark) -> ConversationStep:
    part = MessagePart(MessageRole.SYSTEM, PartKind.TEXT, mark.text)
    return ConversationStep(StepKind.SUBMISSION, mark.at, (part,), submission=mark.number)


def client_conversation(
    turns: Sequence[Sequence[tuple[str, str]] | None], submissions: Sequence[int], marks: Sequence[SubmissionMark]
) -> ModelConversation:
    """Return a conversation from what a client printed in each turn: pairs of `call`, `result` or `text` and its words.

    Without times, submissions stand behind the turn in which they were made: ``submissions`` has how many were made
    until the end of each turn.
    """
    kinds = {
        "call": (StepKind.ASSISTANT, MessageRole.ASSISTANT, PartKind.CALL),
        "result": (StepKind.TOOL, MessageRole.TOOL, PartKind.RESULT),
        "text": (StepKind.ASSISTANT, MessageRole.ASSISTANT, PartKind.TEXT),
    }
    thread = ConversationThread()
    notes = ["read from the client's own output: prompts, times and tokens of single answers are not in it"]
    for turn, texts in enumerate(turns, 1):
        if texts is None:
            notes.append(f"the client printed nothing readable in turn {turn}")
        for kind, words in texts or ():
            step_kind, role, part_kind = kinds[kind]
            thread.steps.append(ConversationStep(step_kind, 0.0, (MessagePart(role, part_kind, words),), turn))
        made = range(submissions[turn - 2] if turn > 1 else 0, submissions[turn - 1])
        thread.steps += [replace(_submission_step(mark), turn=turn) for mark in marks[made.start : made.stop]]
    has_words = any(step.kind is not StepKind.SUBMISSION for step in thread.steps)
    return ModelConversation((thread,) if has_words else (), tuple(notes), "client")
