"""Compares calls by their content: what a client asks must be the same; ids, times, paths and ports may differ.

A call is reduced to lines: the model, the names of the tools, and each part of the conversation, with everything that
changes from one run to the next replaced by a placeholder.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from evopolicygym.gateway.apis import requested_model
from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.messages import PartKind, canonical, read_request

MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AP]M)?(?:Z|\s?[+-]\d{2}:?\d{2}|\s?UTC)?"
UNIT: Final = r"(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|h|hours?)"
PLACEHOLDERS: Final = (
    (re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"), "<id>"),
    (re.compile(r"(?:https?://)?(?:127\.0\.0\.1|localhost):\d+(?:/[\w-]{16,})?"), "<loopback>"),
    (re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{CLOCK})?"), "<time>"),
    (re.compile(rf"(?:{DAY},?\s+)?(?:{MONTH}\s+\d{{1,2}}|\d{{1,2}}\s+{MONTH}(?=\s+\d{{4}}))(?:,?\s+\d{{4}})?(?:,?\s+{CLOCK})?(?:\s+\d{{4}})?"),
     "<time>"),
    (re.compile(rf"\b{CLOCK}\b"), "<time>"),
    (re.compile(r"\b(?:call|toolu|msg|rs|fc|resp|sess|session|req|user|ctc|thread|agent)[_-][\w-]{8,}"), "<id>"),
    (re.compile(r"(?i)\b((?:chunk|session|process|shell|task|thread|request|agent|bash) ?id\W{1,4})[\w-]+"), r"\1<id>"),
    (re.compile(r"(?i)\b(pid)\b(\W{1,4})\d+"), r"\1\2<id>"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "<id>"),
    (re.compile(r"\b(cch=|[Tt]oken count: )[0-9a-f]+"), r"\1<number>"),  # of texts with durations in them
    (re.compile(r"/tmp/tmp[\w.]{6,10}"), "<temporary>"),
    (re.compile(rf"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\s?{UNIT}\b"), "<duration>"),
    (re.compile(r'(?i)("\w{0,30}(?:(?:wall|time|cpu)\w{0,30}|_m?s)\\?"\s*:\s*)(?:\[[\d.,\se+-]*\]|[\d.e+-]+)'),
     r"\1<duration>"),
    (re.compile(r"(?i)\b((?:wall|elapsed|cpu)[ _]?(?:time|clock)?[ :=\t]+)[\d.]+"), r"\1<duration>"),
    (re.compile(r"\b(real|user|sys)\s+\d+m[\d.]+s"), r"\1 <duration>"),
)  # fmt: skip
MOST_KNOWN: Final = 50_000
MOST_CHARACTERS: Final = 64 << 20  # of the texts that are known
MOST_CHARACTERS_COMPARED: Final = 200_000  # of each of two calls that differ, from where they do
MOST_LINES_COMPARED: Final = 500  # the time to compare them grows with their product
SHOWN_LINES: Final = 12
SHOWN_CHARACTERS: Final = 160


class CallMatcher:
    """Reduces calls of a recording and of its replay to lines that can be compared. ``roots``: the folders of the two
    runs, which are one."""

    def __init__(self, roots: Sequence[str]) -> None:
        names = {name for root in roots if len(root) > 1 for name in (root, re.sub(r"[^A-Za-z0-9]", "-", root))}
        longest_first = sorted(names, key=len, reverse=True)
        self._roots = re.compile("|".join(map(re.escape, longest_first))) if names else None
        self._known: dict[str, str] = {}  # every call repeats the texts of those before
        self._characters = 0
        self.characters_read = 0  # of texts that were not known

    def lines(self, exchange: Exchange) -> list[str]:
        """Return what a call asks, one line for each part."""
        if not exchange.api.is_conversation:
            body = exchange.request_body.decode(errors="replace")
            return [f"{exchange.method} {_path(exchange.target)}", self._plain(canonical(body))]
        request = read_request(exchange)
        parts = [
            f"{part.role} {part.kind}{f' {part.name}' if part.name else ''}: {self._plain(part.key[3])}"
            for part in request.parts
            if part.kind is not PartKind.REASONING
        ]
        model = requested_model(exchange.api, _path(exchange.target), exchange.request_body) or ""
        return [f"model: {model}", f"tools: {' '.join(sorted(request.tools))}", *parts]

    def _plain(self, text: str) -> str:
        if text not in self._known:
            replaced = self._replaced(text)
            self.characters_read += len(text)
            self._characters += len(text) + len(replaced)
            if len(self._known) >= MOST_KNOWN or self._characters > MOST_CHARACTERS:
                self._known.clear()
                self._characters = 0
            self._known[text] = replaced
        return self._known[text]

    def _replaced(self, text: str) -> str:
        if self._roots:
            text = self._roots.sub("<run>", text)
        for pattern, placeholder in PLACEHOLDERS:
            text = pattern.sub(placeholder, text)
        return text


def digest(lines: Sequence[str]) -> bytes:
    """Return a fingerprint of a call's lines."""
    return hashlib.blake2b("\0".join(lines).encode(errors="surrogatepass"), digest_size=16).digest()


def common_lines(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many lines two calls share before the first difference."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def difference(recorded: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return a short diff of two calls, from the first part that differs."""
    start = common_lines(recorded, asked)
    parts = [list(lines[start : start + 3]) for lines in (recorded, asked)]
    if all(parts):  # a large part may differ only at its end
        same = max(0, _common_characters(parts[0][0], parts[1][0]) - MOST_CHARACTERS_COMPARED // 2)
        parts = [[first[same:], *rest] for first, *rest in parts]
    before, now = map(_split, parts)
    equal = max(0, common_lines(before, now) - 1)  # one is shown
    before, now = (lines[equal : equal + MOST_LINES_COMPARED] for lines in (before, now))
    diff = list(difflib.unified_diff(before, now, "the recorded client asked", "this client asks", lineterm="", n=1))
    shown = [line[:SHOWN_CHARACTERS] for line in diff if not line.startswith("@@")]
    rest = len(shown) - SHOWN_LINES - 2
    return [*shown[: SHOWN_LINES + 2], *([f"... {rest} more lines"] if rest > 0 else [])]


def _split(parts: Sequence[str]) -> list[str]:
    cut = (part[:MOST_CHARACTERS_COMPARED] for part in parts)
    return [line for part in cut for line in _visible(part.replace("\\n", "\n").splitlines())]


def _common_characters(first: str, second: str) -> int:
    """Return how many characters two texts share before the first difference."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def _visible(lines: Sequence[str]) -> Iterator[str]:
    """Break long lines, so that a difference far behind is seen, too."""
    for line in lines:
        yield from (line[i : i + SHOWN_CHARACTERS - 1] for i in range(0, max(1, len(line)), SHOWN_CHARACTERS - 1))


def _path(target: str) -> str:
    return target.partition("?")[0]
