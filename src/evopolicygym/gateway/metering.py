"""Count what calls to a model use, and refuse the call that would exceed a limit of the run.

Every call becomes one line of a file in the run's folder as soon as it has ended. So a run that is killed loses no
call, and a resumed run continues to count where the last one ended.
"""

from __future__ import annotations

import errno
import json
import logging
import statistics
import threading
from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from evopolicygym.agents import prices
from evopolicygym.agents.prices import Price
from evopolicygym.agents.usage import AMOUNTS, MAX_AMOUNT, Usage, total_usage
from evopolicygym.errors import UserError
from evopolicygym.files import GrowingFile, open_file
from evopolicygym.gateway.call_limits import CallLimits, CallTotals
from evopolicygym.gateway.exchange import ModelApi
from evopolicygym.run_paths import MODEL_CALLS

MAX_FILE_BYTES: Final = 256 << 20
MAX_READ_BYTES: Final = 16 << 20  # at a time, of a file that may come from another person
MAX_CALLS: Final = 200_000
MAX_LINES: Final = MAX_CALLS + 1000  # with those that were cut
TOKENS: Final = ("fresh_input", "cache_read", "cache_write", "output")
COMPARED: Final = (*TOKENS, "reasoning")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelCall:
    """One call, as it is counted. ``status`` 0: there was no answer. ``attempts`` and ``waited_s`` are the gateway's
    patience; times are in seconds. ``is_troubled``: the gateway saw the provider, the network or the account fail; what
    an agent can provoke, such as a call that it gives up or a request that is refused, is none of these.
    ``is_given_up``: its client has gone before the answer began."""

    number: int
    turn: int
    api: str
    status: int
    is_complete: bool
    model: str | None
    usage: Usage | None
    first_byte_s: float
    duration_s: float
    attempts: int = 1
    waited_s: float = 0.0
    is_troubled: bool = False
    is_given_up: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether something was asked for beside lists of models, and the provider gave an answer, be it an error, or
        may have worked on one that its client did not wait for."""
        return self.api != ModelApi.OTHER and (self.status > 0 or self.is_given_up)

    @property
    def is_unmetered(self) -> bool:
        is_metered = self.api not in (ModelApi.OTHER, ModelApi.TOKEN_COUNTS)
        return is_metered and 0 < self.status < 300 and self.usage is None

    @property
    def totals(self) -> CallTotals:
        """Usage that counts towards limits; nothing if the call is not counted."""
        if not self.is_counted:
            return CallTotals()
        tokens = sum(getattr(self.usage, name) or 0 for name in TOKENS) if self.usage else 0
        return CallTotals(tokens, (self.usage.cost_usd or 0.0) if self.usage else 0.0, 1)


class ModelMeter:
    """Adds up the calls of a run; from any thread.

    Args:
        limits: Of the run. ``hit`` is the one that is used up; ``suite_hit`` one of its suite.
        price_table: The user's prices, which go before those that ship.
        file: Where calls are written; what it has from an earlier process of the run counts.
    """

    def __init__(self, limits: CallLimits, price_table: dict[str, Price], file: Path | None = None) -> None:
        self._limits, self._price_table, self._file = limits, price_table, file
        self._lock = threading.Lock()
        self._calls, is_torn = _read_calls(file) if file else ([], False)
        self._unwritten = bytearray(b"\n" if is_torn else b"")
        self._under_way = 0
        self._used = CallTotals()
        for call in self._calls:
            self._used = self._used.plus(call.totals)
        self._prices: dict[str, Price | None] = {}
        self.hit: str | None = None
        self.suite_hit: str | None = None

    @property
    def last_number(self) -> int:
        return max((call.number for call in self._calls), default=0)

    @property
    def used(self) -> CallTotals:
        """Usage of all calls of the run."""
        with self._lock:
            return self._used

    def admit(self) -> str | None:
        """Admit a call for an answer, which `add` or `withdraw` must end; or return the limit that it would
        exceed."""
        with self._lock:
            full = self._limits.first_reached(self._used, self._under_way)
            if full is None:
                self._under_way += 1
            else:
                self.hit = self.hit or self._limits.first_reached(self._used)
            return full

    def withdraw(self) -> None:
        """End a call that was admitted and did not happen."""
        with self._lock:
            self._under_way -= 1

    def add(self, call: ModelCall, was_admitted: bool) -> ModelCall:
        """Count a call that has ended, and return it with its cost."""
        if call.usage and call.usage.cost_usd is None:
            call = replace(call, usage=replace(call.usage, cost_usd=self._cost(call.usage, call.model)))
        with self._lock:
            self._under_way -= was_admitted
            self._calls.append(call)
            self._used = self._used.plus(call.totals)
            self._write(call)
        return call

    def _cost(self, usage: Usage, model: str | None) -> float | None:
        """Return dollars of a call; None if they are unknown, or cannot be looked up now: its tokens count all the
        same."""
        try:
            if model is not None and model not in self._prices:
                self._prices[model] = prices.price_of(model, self._price_table)
        except Exception:
            log.exception("the price of a model cannot be looked up")
            return None
        price = self._prices.get(model or "")
        return prices.cost(usage, model, {model: price}).usd if model and price else None

    def turn(self, number: int) -> TurnCalls:
        with self._lock:
            return TurnCalls(tuple(call for call in self._calls if call.turn == number))

    def _write(self, call: ModelCall) -> None:
        """Append a line. What does not fit on the disk is written with a later call."""
        if self._file is None:
            return
        line = json.dumps(asdict(call), ensure_ascii=False)  # or a model's name in emoji would take 12 bytes for each
        self._unwritten += line.encode(errors="replace") + b"\n"
        try:
            with self._file.open("ab", buffering=0) as file:
                while self._unwritten:
                    del self._unwritten[: file.write(self._unwritten)]
        except OSError as error:
            log.warning("a call to the model is not in %s yet: %s", self._file.name, error.strerror)


@dataclass(frozen=True)
class TurnCalls:
    """The calls of one turn."""

    calls: tuple[ModelCall, ...]

    @property
    def counted(self) -> list[ModelCall]:
        return [call for call in self.calls if call.is_counted]

    @property
    def usage(self) -> Usage | None:
        """Return tokens and dollars of the turn; None if no call reported any. Dollars are unknown if a call's are."""
        metered = [call.usage for call in self.calls if call.usage]
        total = total_usage(metered)
        if total is None:
            return None
        is_priced = all(usage.cost_usd is not None for usage in metered)
        return replace(total, cost_usd=total.cost_usd if is_priced else None, requests=len(self.counted))

    @property
    def model(self) -> str | None:
        """The model that served most calls."""
        return next((name for name, _ in self._models().most_common(1)), None)

    def facts(self, reported: Usage | None) -> dict[str, Any]:
        """Return what the ledger says of the calls of the turn, beside their usage. ``reported``: the client's own
        figures, which are noted where they differ."""
        answered = [call for call in self.counted if call.status]
        seconds = [call.duration_s for call in answered]
        first = [call.first_byte_s for call in answered]
        facts: dict[str, Any] = {
            "requests": len(self.counted),
            "failed": sum(call.status >= 400 for call in self.counted) + sum(call.status == 0 for call in self.calls),
            "trouble": sum(call.is_troubled for call in self.calls),
            "cut": sum(not call.is_complete for call in answered),
            "unmetered": sum(call.is_unmetered for call in self.calls),
            "retries": sum(max(0, call.attempts - 1) for call in self.calls),
            "waited_s": round(sum(call.waited_s for call in self.calls), 3),
            "models": dict(self._models()),
        }
        if seconds:
            facts["latency_s"] = {
                "first_byte": round(statistics.median(first), 3),
                "median": round(statistics.median(seconds), 3),
                "max": round(max(seconds), 3),
            }
        if reported and (difference := _difference(reported, self.usage)):
            facts["client_reports"] = difference
        return facts

    def _models(self) -> Counter[str]:
        return Counter(call.model for call in self.counted if call.model)


def _difference(reported: Usage, metered: Usage | None) -> dict[str, Any]:
    """Return the client's figures that are not the metered ones."""
    return {
        name: theirs
        for name in COMPARED
        if (theirs := getattr(reported, name)) is not None
        and theirs != ((getattr(metered, name) if metered else None) or 0)
    }


def _read_calls(path: Path) -> tuple[list[ModelCall], bool]:
    """Read the calls of an earlier process, and whether the last line was cut. Lines that are no calls are left out."""
    try:
        with open_file(path.parent, path.name, MAX_FILE_BYTES) as file:
            lines = list(islice(file, MAX_LINES + 1))
        if len(lines) > MAX_LINES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_LINES:,} lines", str(path))
    except FileNotFoundError:
        return [], False
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}",
            "It has the calls to the model that the run's limits count. Remove it to count from none.",
        ) from error
    calls = [call for line in lines if (call := _parse_call(line)) is not None]
    if len(calls) < len(lines):
        log.warning("%d lines of %s are no calls to the model, and are left out", len(lines) - len(calls), path.name)
    return calls, bool(lines) and not lines[-1].endswith(b"\n")


assert set(TOKENS) <= set(AMOUNTS)


def _parse_call(line: bytes) -> ModelCall | None:
    """Return the call that a line says; None if it says anything else, or has numbers that are not believed."""
    try:
        call = msgspec.convert(json.loads(line), ModelCall)  # msgspec's own parser refuses half a surrogate pair
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    values = [*vars(call).values(), *(vars(call.usage).values() if call.usage else ())]
    return call if all(0 <= value < MAX_AMOUNT for value in values if isinstance(value, int | float)) else None


class CallFile:
    """The calls of a run, read from its file while it grows. Each look reads what was added since the last one."""

    def __init__(self, run_folder: Path) -> None:
        self._file = GrowingFile(run_folder, MODEL_CALLS, MAX_READ_BYTES)
        self._calls: list[ModelCall] = []

    def since(self, turn: int) -> list[ModelCall]:
        """Return the calls of a turn and those after it."""
        self._read()
        return [call for call in self._calls if call.turn >= turn]

    def _read(self) -> None:
        for line in self._file.lines()[: max(0, MAX_CALLS - len(self._calls))]:
            if (call := _parse_call(line)) is not None:
                self._calls.append(call)
