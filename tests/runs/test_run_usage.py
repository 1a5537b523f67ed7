"""The usage of a run is the sum over its turns: a lower bound where a turn tells nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from evopolicygym.judge.events import Turned
from evopolicygym.judge.state import RunState, apply
from evopolicygym.runs.record import _usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
METERED = {"fresh_input": 900, "cache_read": 100, "cache_write": None, "output": 50, "reasoning": None, "cost_usd": 0.5}


def usage_after(*usages: dict[str, float | None] | None) -> dict[str, object]:
    state = RunState()
    for usage in usages:
        facts = usage and {**usage, "source": "client"}
        state = apply(state, Turned("s", 0, 60.0, 0, facts, None, "", False), NOW)
    used = _usage(state)
    assert used is not None
    return used


def test_an_interrupted_turn_makes_the_usage_a_lower_bound():
    used = usage_after(METERED, None, METERED)
    assert (used["input_tokens"], used["cached_tokens"], used["output_tokens"], used["dollars"]) == (1800, 200, 100, 1)
    assert used["at_least"] == ["input_tokens", "cached_tokens", "output_tokens", "dollars"]
    assert used["cache_write_tokens"] is None, "no turn reports it"


def test_complete_usage_is_not_called_a_bound():
    assert "at_least" not in usage_after(METERED, METERED)
    assert usage_after(None)["input_tokens"] is None
