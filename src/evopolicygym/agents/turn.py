"""One turn of an agent: how it ended, read from the client's output by the rules of its definition.

The exit code alone is not trusted: some clients exit with 0 after a failure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.agents import json_events
from evopolicygym.agents.failures import TRANSIENT, FailureKind, TurnFailure, classify, make_failure
from evopolicygym.agents.json_events import ReadingLimit
from evopolicygym.agents.usage import Usage, UsageCounter

if TYPE_CHECKING:
    from evopolicygym.agents.definitions import Client, ExtractRule, FailureRule


@dataclass(frozen=True)
class Turn:
    """How a turn ended. ``session`` resumes the conversation; ``text`` is the agent's last message; ``stop``: it wants
    no more prompts; ``model``: the one that served it, as the client reports it; ``calls``: what the gateway says of
    its calls to the model, beside their usage."""

    exit_code: int | None
    wall_s: float
    session: str | None = None
    text: str = ""
    usage: Usage | None = None
    failure: TurnFailure | None = None
    stop: bool = False
    model: str | None = None
    calls: dict[str, Any] | None = None


SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")  # it becomes an argument and part of a path
MAX_MODEL_NAME: Final = 200
MAX_TEXT_PIECES: Final = 1000


@dataclass(frozen=True)
class ProcessExit:
    """How the client's process ended. ``exit_code`` None: it was killed when its time was over. ``session``: the one
    given on its command line. ``before``: usage of the earlier turns of this session."""

    exit_code: int | None
    wall_s: float
    home: Path
    stderr_tail: str = ""
    session: str | None = None
    before: Usage | None = None


def read_turn(client: Client, lines: Iterable[str], process: ProcessExit) -> Turn:
    """Read a turn from the lines of a client's output, one at a time: a transcript may be larger than memory."""
    reader = _Reader(client)
    for line in lines:
        reader.read_line(line)
    session = (
        _valid(reader.session)
        or (process.session if reader.has_events else None)
        or _session_in_files(client, process.home)
    )
    of_home = ReadingLimit()
    for file in sorted(client.session_files):
        for event in json_events.session_events(process.home, file, session or process.session or "", of_home):
            reader.read_event(event, file)
    failed = _failure(client, reader, process)
    return Turn(
        exit_code=process.exit_code,
        wall_s=process.wall_s,
        session=session,
        text="\n".join(reader.text)[-json_events.LONGEST_TEXT :],
        usage=_usage(reader, process.before),
        failure=failed,
        stop=client.turns == "once" and not failed,
        model=reader.served[:MAX_MODEL_NAME] or None,
    )


def unreadable_turn(process: ProcessExit, why: str) -> Turn:
    """Return a turn of which no more is known than how its process ended."""
    failure = make_failure(FailureKind.CLIENT, f"what it left cannot be read: {why}")
    return Turn(process.exit_code, process.wall_s, process.session, failure=failure)


class _Reader:
    """Facts collected from a client's output while it is read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session = self.served = self.last = ""
        self.text: deque[str] = deque(maxlen=MAX_TEXT_PIECES if client.joins_text else 1)
        self.counters = [UsageCounter(meter) for meter in client.usage]
        self.reported: ReportedFailure | None = None
        self.done = self.has_events = False

    def read_line(self, line: str) -> None:
        """Read one line of the output."""
        self.last = line if line.strip() else self.last
        event = json_events.parse_event(line)
        self.session = _pick(self.client.session, event, line) or self.session
        self.served = _pick(self.client.served, event, line) or self.served
        if text := _pick(self.client.text, event, line):
            self.text.append(text[-json_events.LONGEST_TEXT :])
        if event is not None:
            self.has_events = True
            self.done = self.done or any(json_events.event_matches(event, where) for where in self.client.done)
            self.read_event(event, "")

    def read_event(self, event: Any, file: str) -> None:
        """Read usage and failures from an event of the output (``file`` empty) or of a session file."""
        self.reported = _reported_failure(self.client.failure, event, file) or self.reported
        for counter in self.counters:
            if counter.meter.file == file:
                counter.read(event)


def _session_in_files(client: Client, home: Path) -> str | None:
    """Return the last session named in a session file."""
    candidates = (
        json_events.text_at(event, rule.at)
        for rule in client.session
        if rule.file
        for event in json_events.session_events(home, rule.file, "", ReadingLimit())
        if json_events.event_matches(event, rule.where)
    )
    return next((_valid(last) for last in deque(candidates, maxlen=1)), None)


def _pick(rules: Iterable[ExtractRule], event: Any, line: str) -> str:
    for rule in rules:
        if rule.file:
            continue
        if rule.line and event is None and (match := re.search(rule.line, line)):
            return match[1]
        if not rule.line and event is not None and json_events.event_matches(event, rule.where):
            return json_events.text_at(event, rule.at)
    return ""


@dataclass(frozen=True)
class ReportedFailure:
    """Text that a rule of the client names as an error. Only the last one of a turn is classified, which takes time."""

    rule: FailureRule
    text: str

    def classified(self) -> TurnFailure:
        return make_failure(self.rule.kind or classify(self.text, self.rule.otherwise), self.text)


def _reported_failure(rules: Iterable[FailureRule], event: Any, file: str) -> ReportedFailure | None:
    """Return the failure that an event of the output, or of a session file, reports."""
    for rule in rules:
        if rule.line or rule.file != file or not json_events.event_matches(event, rule.where):
            continue
        if any(json_events.values_at(event, path) for path in rule.lacks):
            continue
        text = json_events.text_at(event, rule.at)
        if re.search(rule.matches, text):
            return ReportedFailure(rule, text)
    return None


def _failure_in_stderr(rules: Iterable[FailureRule], stderr: str) -> TurnFailure | None:
    """Return the last failure that the client reports on its standard error, by rules with ``line``."""
    for rule in rules:
        if rule.line and (texts := [match[1] for match in re.finditer(rule.line, stderr, re.MULTILINE)]):
            return make_failure(rule.kind or classify(texts[-1], rule.otherwise), texts[-1])
    return None


def _usage(reader: _Reader, before: Usage | None) -> Usage | None:
    """Use the first meter that found anything: older versions of a client report usage elsewhere."""
    candidates = ((counter.meter, usage) for counter in reader.counters if (usage := counter.usage))
    return next((meter.of_turn(usage, before) for meter, usage in candidates), None)


def _failure(client: Client, reader: _Reader, process: ProcessExit) -> TurnFailure | None:
    """Return why the turn failed, None if it did not. Text that no rule of the client names as an error is shown, not
    classified: it may be the output of a tool, or anything that a user's program prints."""
    if reader.reported:
        return reader.reported.classified()
    if process.exit_code is None:
        return _killed(client, reader, process)
    if kind := client.exit_codes.get(str(process.exit_code)):
        return make_failure(kind, _last_stderr_lines(process) or f"exit code {process.exit_code}")
    if not process.exit_code and (reader.done or not client.done):
        return None
    if failure := _failure_in_stderr(client.failure, process.stderr_tail):
        return failure
    words = _last_stderr_lines(process) or _cut(reader.last)  # a script may print errors to standard output
    if client.done and not reader.done:
        code = process.exit_code
        words = f"the client exited with code {code} without reporting the end of the turn: {words}"
    return make_failure(FailureKind.CLIENT, words or f"exit code {process.exit_code}")


def _killed(client: Client, reader: _Reader, process: ProcessExit) -> TurnFailure:
    """Return the failure of a killed turn. If the client's last words are that it waits for its provider, that is the
    cause."""
    reported = _reported_failure(client.waiting, json_events.parse_event(reader.last) or {}, "")
    waiting = reported.classified() if reported else _failure_in_stderr(client.waiting, process.stderr_tail)
    words = waiting.text if waiting else _last_stderr_lines(process, 1)
    kind = waiting.kind if waiting and waiting.kind in TRANSIENT else FailureKind.TIMEOUT
    return make_failure(kind, f"killed when its time was over; last output: {words}")


def _last_stderr_lines(process: ProcessExit, count: int = 5) -> str:
    lines = [line for line in process.stderr_tail.splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def _cut(line: str) -> str:
    return line.strip()[-500:]


def _valid(session: str) -> str | None:
    return session if SESSION.fullmatch(session) else None
