"""Kinds of failures of an agent's turn, and how they are recognised in the error text of a client.

Only text from a client's own error fields is classified (`FailureRule` in agents/definitions.py). What a tool printed
and what a model wrote never is: both quote numbers and errors of other programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FailureKind(StrEnum):
    """The kinds of causes for which a turn fails."""

    AUTHENTICATION = "authentication"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    TURN_LIMIT = "turn_limit"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    CLIENT = "client"


TRANSIENT: Final = frozenset({FailureKind.RATE_LIMIT, FailureKind.PROVIDER})
MAX_FAILURE_CHARACTERS: Final = 2000


@dataclass(frozen=True)
class TurnFailure:
    """Kind of a failure, and the client's text about it."""

    kind: FailureKind
    text: str

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT


# A number is an HTTP status only at the beginning or beside a word that says so: "status: 401", "503 Bad Gateway".
REASONS: Final = (
    r"unauthorized|forbidden|payment required|proxy authentication required|request timeout|too many requests"
    r"|bad request|not found|internal server error|bad gateway|service unavailable|gateway time-?out|overloaded"
)
STATUS: Final = re.compile(
    r"""(?:\bhttp(?:/[\d.]+)?|\bstatus(?:[ _-]?code)?|\bcode|error)["']?\s*[:=]?\s*[("'\[]?([45]\d\d)\b"""
    rf"|\b([45]\d\d)\W{{1,3}}(?:{REASONS})\b|\A\W*([45]\d\d)\b|\(([45]\d\d)\)",
    re.IGNORECASE,
)
STATUS_KINDS: Final = {
    **dict.fromkeys((401, 402, 403, 407), FailureKind.AUTHENTICATION),
    **dict.fromkeys((408, 425), FailureKind.PROVIDER),
    429: FailureKind.RATE_LIMIT,
}
TURN_LIMIT: Final = r"max(imum)?[ _-]?(session[ _-]?)?(turns|steps|iterations)|(turn|step) limit|LimitsExceeded"
AUTHENTICATION: Final = (
    r"unauthori[sz]ed|authentication.?(error|failed)|failed to authenticate|auth_error|PermissionDenied|not logged in"
    r"|please (run /login|log ?in)|(invalid|missing|incorrect|expired|no).{0,20}(api.?key|credential)"
    r"|api.?key.{0,20}(invalid|missing|not|required|expired)"
)
RATE_LIMIT: Final = r"rate.?limit|too many requests|quota|usage limit|resource_exhausted"
PROVIDER: Final = (
    r"overloaded|high demand|internal ?server ?error|server_error|api_error|unavailable|bad ?gateway|connect|network"
    r"|stream.{0,40}(clos|end|interrupt|cut|error)|proxy|socket|timed? ?out|premature|terminated|IncompleteRead"
    r"|\b(ECONN[A-Z]+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|E(HOST|NET)UNREACH)\b|fetch failed|error (decoding|sending)"
    r"|name resolution|certificate"
)
PATTERNS: Final = (
    (FailureKind.TURN_LIMIT, TURN_LIMIT),
    (FailureKind.AUTHENTICATION, AUTHENTICATION),
    (FailureKind.RATE_LIMIT, RATE_LIMIT),
    (FailureKind.PROVIDER, PROVIDER),
)


COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# A session that the client cannot continue: "No previous sessions found", "Session abc not found".
LOST_SESSION: Final = re.compile(
    r"\b(no|not|cannot|could not|failed|invalid|unknown)\b.{0,60}\b(sessions?|conversation|thread|rollout)\b"
    r"|\b(session|conversation|thread|rollout)\b.{0,80}\b(not (be )?found|does not exist|no longer|corrupt|invalid)",
    re.IGNORECASE,
)


def classify(error: str, otherwise: FailureKind = FailureKind.CLIENT) -> FailureKind:
    """Return the kind of failure that the text of an error field reports: by its HTTP status, else by its words.
    ``otherwise``: the kind of a text without either."""
    match = STATUS.search(error)
    status = next((int(number) for number in match.groups() if number), 0) if match else 0
    if status >= 500 or status in STATUS_KINDS:
        return STATUS_KINDS.get(status, FailureKind.PROVIDER)
    kinds = (kind for kind, pattern in PATTERNS if re.search(pattern, error, re.IGNORECASE))
    return next(kinds, FailureKind.CLIENT if status else otherwise)


def make_failure(kind: FailureKind, text: str) -> TurnFailure:
    """Return a failure with the end of its text, which is where most programs say what happened."""
    return TurnFailure(kind, COLOUR.sub("", text).strip()[-MAX_FAILURE_CHARACTERS:])
