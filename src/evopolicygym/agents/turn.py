"""One turn of an agent: what it was told is the driver's; how it ended and what it cost is here."""

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
    """Why a turn did not end as it should have."""

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
    """``session`` is what resumes the conversation; ``text`` the agent's last words; ``stop``: it wants no more;
    ``model``: which one served it, by the client's own word."""

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
MEANINGS: Final = (
    (FailureKind.TURN_LIMIT, TURN_LIMIT),
    (FailureKind.AUTHENTICATION, AUTHENTICATION),
    (FailureKind.RATE_LIMIT, RATE_LIMIT),
    (FailureKind.PROVIDER, PROVIDER),
)
# Where in a file something went wrong, as in a traceback: such a number is no status of a server.
PLACES: Final = r"\b(line|column|char) \d+|\.[cm]?(py|js|ts|sh|go|rs):\d+(:\d+)?"
LONGEST: Final = 2000


def classify(text: str) -> FailureKind:
    text = re.sub(PLACES, "", text)
    found = (kind for kind, pattern in MEANINGS if re.search(pattern, text, re.IGNORECASE))
    return next(found, FailureKind.CLIENT)


def make_failure(text: str, kind: FailureKind | None = None) -> TurnFailure:
    text = text.strip()
    return TurnFailure(kind or classify(text), text[-LONGEST:])


SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")  # it becomes an argument and part of a path
LONGEST_NAME: Final = 200
PIECES: Final = 1000


@dataclass(frozen=True)
class ProcessExit:
    """How the process ended, by those who ran it. ``exit_code`` None: it was killed, for its time was over.
    ``session``: of the command. ``before``: all usage of the earlier turns of this session."""

    exit_code: int | None
    wall_s: float
    home: Path
    stderr_tail: str = ""
    session: str | None = None
    before: Usage | None = None


def read_turn(client: Client, lines: Iterable[str], ended: ProcessExit) -> Turn:
    """Event by event: a transcript may be larger than memory."""
    reader = _Reader(client)
    for line in lines:
        reader.hear(line)
    session = _valid(reader.session) or (ended.session if reader.heard else None) or _filed(client, ended.home)
    of_home = ReadingLimit()
    for file in sorted(client.session_files):
        for event in json_events.session_events(ended.home, file, session or ended.session or "", of_home):
            reader.take(event, file)
    failed = _failure(client, reader, ended)
    return Turn(
        exit_code=ended.exit_code,
        wall_s=ended.wall_s,
        session=session,
        text="\n".join(reader.text)[-json_events.LONGEST_TEXT :],
        usage=_usage(reader, ended.before),
        failure=failed,
        stop=client.turns == "once" and not failed,
        model=reader.served[:LONGEST_NAME] or None,
    )


class _Reader:
    """What is kept of all that was said."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session = self.served = self.last = ""
        self.text: deque[str] = deque(maxlen=PIECES if client.joins_text else 1)
        self.tallies = [UsageCounter(meter) for meter in client.usage]
        self.complaint: tuple[str, FailureKind | None] | None = None
        self.done = self.heard = False

    def hear(self, line: str) -> None:
        """A line of the stream."""
        self.last = line if line.strip() else self.last
        event = json_events.parse_event(line)
        self.session = _pick(self.client.session, event, line) or self.session
        self.served = _pick(self.client.served, event, line) or self.served
        if text := _pick(self.client.text, event, line):
            self.text.append(text[-json_events.LONGEST_TEXT :])
        if event is not None:
            self.heard = True
            self.done = self.done or any(json_events.event_matches(event, where) for where in self.client.done)
            self.take(event, "")

    def take(self, event: Any, file: str) -> None:
        """Usage and complaints: of the stream, or of a session file."""
        self.complaint = _complaint(self.client.failure, event, file) or self.complaint
        for tally in self.tallies:
            if tally.meter.file == file:
                tally.hear(event)


def _filed(client: Client, home: Path) -> str | None:
    """The last session that a file tells of."""
    told = (
        json_events.text_at(event, rule.at)
        for rule in client.session
        if rule.file
        for event in json_events.session_events(home, rule.file, "", ReadingLimit())
        if json_events.event_matches(event, rule.where)
    )
    return next((_valid(last) for last in deque(told, maxlen=1)), None)


def _pick(rules: Iterable[ExtractRule], event: Any, line: str) -> str:
    for rule in rules:
        if rule.file:
            continue
        if rule.line and event is None and (found := re.search(rule.line, line)):
            return found[1]
        if not rule.line and event is not None and json_events.event_matches(event, rule.where):
            return json_events.text_at(event, rule.at)
    return ""


def _complaint(rules: Iterable[FailureRule], event: Any, file: str) -> tuple[str, FailureKind | None] | None:
    """Its text, and its kind where the rule names one."""
    for rule in rules:
        if rule.file == file and json_events.event_matches(event, rule.where):
            text = json_events.text_at(event, rule.at)
            if re.search(rule.matches, text):
                return text, rule.kind
    return None


def _usage(reader: _Reader, before: Usage | None) -> Usage | None:
    """The first meter that has anything to tell: a client's older versions tell it elsewhere."""
    told = ((tally.meter, usage) for tally in reader.tallies if (usage := tally.told))
    return next((meter.of_turn(usage, before) for meter, usage in told), None)


def _failure(client: Client, reader: _Reader, ended: ProcessExit) -> TurnFailure | None:
    if reader.complaint:
        return make_failure(*reader.complaint)
    if ended.exit_code is None:
        return _killed(client, reader, ended)
    if kind := client.exit_codes.get(str(ended.exit_code)):
        return make_failure(_last_words(ended) or f"exit code {ended.exit_code}", kind)
    if client.done and not reader.done:
        words = _last_words(ended) or _cut(reader.last)
        return make_failure(f"it ended (exit code {ended.exit_code}) without saying that the turn is done: {words}",
                       classify(words))  # fmt: skip
    if ended.exit_code:  # a script may complain where it says everything else
        return make_failure(_last_words(ended) or _cut(reader.last) or f"exit code {ended.exit_code}")
    return None


def _killed(client: Client, reader: _Reader, ended: ProcessExit) -> TurnFailure:
    """Somebody who was still waiting for the provider when the time was over says so with the last line."""
    complaint = _complaint(client.waiting, json_events.parse_event(reader.last) or {}, "")
    waiting = make_failure(*complaint) if complaint else None
    words = waiting.text if waiting else _last_words(ended, 1)
    kind = waiting.kind if waiting else classify(words)
    return make_failure(f"killed when its time was over; last words: {words}",
                   kind if kind in TRANSIENT else FailureKind.TIMEOUT)  # fmt: skip


def _last_words(ended: ProcessExit, count: int = 5) -> str:
    lines = [line for line in ended.stderr_tail.splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def _cut(line: str) -> str:
    return line.strip()[-500:]


def _valid(session: str) -> str | None:
    return session if SESSION.fullmatch(session) else None
