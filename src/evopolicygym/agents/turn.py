"""One turn of an agent: how it ended, read from the client's output by the rules of its definition.

The exit code alone is not trusted: some clients exit with 0 after a failure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.agents import json_events
from evopolicygym.agents.json_events import ReadingLimit
from evopolicygym.agents.usage import Usage, UsageCounter

if TYPE_CHECKING:
    from evopolicygym.agents.definitions import Client, ExtractRule, FailureRule


class FailureKind(StrEnum):
    """Why a turn failed."""

    AUTHENTICATION = "authentication"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    TURN_LIMIT = "turn_limit"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    CLIENT = "client"


TRANSIENT = frozenset({FailureKind.RATE_LIMIT, FailureKind.PROVIDER})


@dataclass(frozen=True)
class TurnFailure:
    kind: FailureKind
    text: str

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT


@dataclass(frozen=True)
class Turn:
    """How a turn ended. ``session`` resumes the conversation; ``text`` is the agent's last message; ``stop``: it wants
    no more prompts; ``model``: the one that served it, as the client reports it."""

    exit_code: int | None
    wall_s: float
    session: str | None = None
    text: str = ""
    usage: Usage | None = None
    failure: TurnFailure | None = None
    stop: bool = False
    model: str | None = None


TURN_LIMIT: Final = r"max(imum)?[ _-]?(session[ _-]?)?(turns|steps|iterations)|(turn|step) limit|LimitsExceeded"
AUTHENTICATION: Final = (
    r"\b40[13]\b|unauthori[sz]ed|authenticat|auth_error|not logged in|please log ?in|run /login"
    r"|(invalid|missing|incorrect|expired|no).{0,20}(api.?key|credential)|api.?key.{0,20}(invalid|missing|not|required)"
)
RATE_LIMIT: Final = r"\b429\b|rate.?limit|too many requests|quota|usage limit"
PROVIDER: Final = (
    r"\b5\d\d\b|overloaded|high demand|internal server error|server_error|unavailable|bad gateway|disconnect"
    r"|stream.{0,40}(clos|end|interrupt|cut|error)|connection|network|socket|timed? ?out|premature|terminated"
    r"|ECONN\w+|ENOTFOUND|EAI_AGAIN|fetch failed|error (decoding|sending)|IncompleteRead"
)
PATTERNS: Final = (
    (FailureKind.TURN_LIMIT, TURN_LIMIT),
    (FailureKind.AUTHENTICATION, AUTHENTICATION),
    (FailureKind.RATE_LIMIT, RATE_LIMIT),
    (FailureKind.PROVIDER, PROVIDER),
)
# Positions in files, as in tracebacks: their numbers are not HTTP statuses.
FILE_POSITIONS: Final = r"\b(line|column|char) \d+|\.[cm]?(py|js|ts|sh|go|rs):\d+(:\d+)?"
MAX_FAILURE_CHARACTERS: Final = 2000


def classify(text: str) -> FailureKind:
    text = re.sub(FILE_POSITIONS, "", text)
    kinds = (kind for kind, pattern in PATTERNS if re.search(pattern, text, re.IGNORECASE))
    return next(kinds, FailureKind.CLIENT)


def make_failure(text: str, kind: FailureKind | None = None) -> TurnFailure:
    text = text.strip()
    return TurnFailure(kind or classify(text), text[-MAX_FAILURE_CHARACTERS:])


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


class _Reader:
    """Facts collected from a client's output while it is read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session = self.served = self.last = ""
        self.text: deque[str] = deque(maxlen=MAX_TEXT_PIECES if client.joins_text else 1)
        self.counters = [UsageCounter(meter) for meter in client.usage]
        self.reported: tuple[str, FailureKind | None] | None = None
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


def _reported_failure(rules: Iterable[FailureRule], event: Any, file: str) -> tuple[str, FailureKind | None] | None:
    """Return the text of a reported failure, and its kind if the rule has one."""
    for rule in rules:
        if rule.file == file and json_events.event_matches(event, rule.where):
            text = json_events.text_at(event, rule.at)
            if re.search(rule.matches, text):
                return text, rule.kind
    return None


def _usage(reader: _Reader, before: Usage | None) -> Usage | None:
    """Use the first meter that found anything: older versions of a client report usage elsewhere."""
    candidates = ((counter.meter, usage) for counter in reader.counters if (usage := counter.usage))
    return next((meter.of_turn(usage, before) for meter, usage in candidates), None)


def _failure(client: Client, reader: _Reader, process: ProcessExit) -> TurnFailure | None:
    if reader.reported:
        return make_failure(*reader.reported)
    if process.exit_code is None:
        return _killed(client, reader, process)
    if kind := client.exit_codes.get(str(process.exit_code)):
        return make_failure(_last_stderr_lines(process) or f"exit code {process.exit_code}", kind)
    if client.done and not reader.done:
        words = _last_stderr_lines(process) or _cut(reader.last)
        code = process.exit_code
        text = f"the client exited with code {code} without reporting the end of the turn: {words}"
        return make_failure(text, classify(words))
    if process.exit_code:  # a script may print errors to standard output
        return make_failure(_last_stderr_lines(process) or _cut(reader.last) or f"exit code {process.exit_code}")
    return None


def _killed(client: Client, reader: _Reader, process: ProcessExit) -> TurnFailure:
    """Return the failure of a killed turn. If the last line says that the client was waiting for its provider, that is
    the cause."""
    reported = _reported_failure(client.waiting, json_events.parse_event(reader.last) or {}, "")
    waiting = make_failure(*reported) if reported else None
    words = waiting.text if waiting else _last_stderr_lines(process, 1)
    kind = waiting.kind if waiting else classify(words)
    return make_failure(f"killed when its time was over; last output: {words}",
                   kind if kind in TRANSIENT else FailureKind.TIMEOUT)  # fmt: skip


def _last_stderr_lines(process: ProcessExit, count: int = 5) -> str:
    lines = [line for line in process.stderr_tail.splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def _cut(line: str) -> str:
    return line.strip()[-500:]


def _valid(session: str) -> str | None:
    return session if SESSION.fullmatch(session) else None
