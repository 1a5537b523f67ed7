"""One event of each kind, and the ledger that they form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from golden_files import DATA

from evopolicygym.execution.records import Node
from evopolicygym.judge import events
from evopolicygym.judge.ledger import Ledger, read
from evopolicygym.sandbox.checkpoints import Checkpoint

LEDGER = DATA / "ledger.jsonl"
BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
POLICY = "a" * 64
TWO = events.EpisodeStats((0.1, -1e-300), (7, 500), (None, "act_error"))
NODE = Node("node-1", "host-1", "A", 4)
USAGE = {
    "fresh_input": 10,
    "cache_read": None,
    "cache_write": 0,
    "output": 5,
    "reasoning": None,
    "cost_usd": 0.25,
    "source": "client",
}
EVENTS: tuple[events.Event, ...] = (
    events.Opened(
        "0123456789abcdef", 4, 1, 2, {"task": {"id": "core16/acrobot"}, "evopolicygym": "0.1.0"},
        salt="5" * 64, max_candidates=3, settings="6" * 64, signature="7" * 64,
    ),
    events.Owned("A", "fast", (NODE,), "b-0123456789abcdef", ("kernel exploits",)),
    events.Joined(Node("node-2", "host-2", "", 0, "another scipy"), ("kernel exploits",)),
    events.Prompted(1),
    events.Refused("busy"),
    events.Charged(1, "key-1", Checkpoint(POLICY, 1, 243, True, False), (3, 0)),
    events.Judged(1, "ok", TWO, 2, 0.5, {"submit_id": "submit_001", "returns": [0.1, -1e-300]}, "f" * 64),
    events.Charged(2, "key-2", Checkpoint("b" * 64, 2, 300, True, True), (1,)),
    events.Judged(2, "import_error", None, 0, 0.25, {"submit_id": "submit_002", "status": "import_error"}, "e" * 64),
    events.Charged(3, "key-3", Checkpoint(POLICY, 1, 243, True, False), (2,)),
    events.Refunded(3, "é \u2028 a worker was killed", permanent=True),
    events.Turned("session-1", 0, 1.5, 3, USAGE, None, "done", False, "model-1", {"source": "client", "quoted": None}),
    events.Turned(None, None, 2.5, 3, None, "timeout", "", True),
    events.Closed("agent_stopped", "a worker was killed"),
    events.Inspected({"signs": [{"kind": "network", "count": 1, "where": "a.py", "example": "x"}], "not_checked": []}),
    events.Validated(POLICY, TWO, 0.75),
    events.Selected(1),
    events.Selected(None),
    events.Scored(POLICY, TWO, 1.25),
    events.Repeated((0.1, -1e-300), 1.0),
    events.Finished(),
    events.Suspended("provider_down", "503 Service Unavailable"),
)  # fmt: skip


def write_ledger(path: Path, entries: Iterable[tuple[datetime, events.Event]]) -> bytes:
    listed = list(entries)
    times = iter([time for time, _ in listed])
    ledger = Ledger(path, now=lambda: next(times))
    for _, event in listed:
        ledger.append(event)
    ledger.close()
    return path.read_bytes()


def timed_events() -> list[tuple[datetime, events.Event]]:
    return [(BEGIN + timedelta(seconds=number), event) for number, event in enumerate(EVENTS)]


def stored_events() -> list[tuple[datetime, events.Event]]:
    return [(line.time, line.event()) for line, _ in read(LEDGER)]
