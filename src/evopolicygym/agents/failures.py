"""What a client's complaint means. First match wins, so that `429 ... server error` is a rate limit."""

from __future__ import annotations

import re
from typing import Final

from evopolicygym.agents.turns import Failure, FailureKind

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


def failure(text: str, kind: FailureKind | None = None) -> Failure:
    text = text.strip()
    return Failure(kind or classify(text), text[-LONGEST:])
