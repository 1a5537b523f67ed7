"""Settings and limits that change what an agent does are recorded, and make another entrant."""

from __future__ import annotations

import pytest

from evopolicygym.runs.settings import AgentSettings


def test_default_limits_are_not_recorded():
    assert AgentSettings(name="codex").behaviour() == {}
    assert AgentSettings(name="codex", seed=7, model="m").behaviour() == {}


@pytest.mark.parametrize(
    ("limits", "recorded"),
    [
        ({"hours": 1.0, "turns": 3}, {"turns": 3, "hours": 1.0}),
        ({"hours": None}, {"hours": "none"}),
        ({"dollars": 2.5, "tokens": 1000}, {"tokens": 1000, "dollars": 2.5}),
        ({"json_lines": True}, {"json_lines": True}),
    ],
)
def test_other_limits_are(limits, recorded):
    assert AgentSettings(name="codex", **limits).behaviour() == recorded
