"""Real clients play whole runs through the gateway while their provider fails in every way, once each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from evolution_script import SUBMIT, evolve
from run_helpers import RealClientRun
from scripted_model import ScriptedModel
from wire_formats import Past

FAULTS = ("gzip", "401", "429:1", "500", "529", "cut", "malformed", "die")
QUICK = [("codex", ("gzip", "500", "cut", "malformed")), ("claude", ("gzip", "401", "429:1", "die"))]
OTHERS = ("kimi", "qwen", "gemini", "opencode", "goose", "openhands", "mini-swe-agent")
pytestmark = pytest.mark.timeout(900)


class EachFault:
    """Plays as ever, but after the first submission every second request meets the next fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.model: ScriptedModel | None = None
        self.left, self.requests, self.has_submitted = list(faults), 0, False

    def __call__(self, history: Sequence[Past]) -> str:
        assert self.model
        self.model.fault = None
        # mini-swe-agent has no sessions: its next turn does not tell of the submission.
        self.has_submitted = self.has_submitted or any(SUBMIT in past.text for past in history if past.kind == "call")
        if self.has_submitted:
            self.requests += 1
            if self.requests % 2 and self.left:
                self.model.fault = self.left.pop(0)
        return evolve(history)


EVERY = [pytest.param(name, FAULTS, marks=pytest.mark.slow) for name in ("codex", "claude", "model", *OTHERS)]


@pytest.mark.parametrize(("name", "faults"), [*QUICK, *EVERY])
def test_every_fault_of_a_provider_is_survived(name, faults, tmp_path):
    """The run spends its budget as ever, nothing is charged twice, and every request is counted."""
    script = EachFault(faults)
    with ScriptedModel(script) as model:
        script.model = model
        record = RealClientRun(name, model).plays(tmp_path / "run", "--model-patience", "1")
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert record["budget"]["charged"] == 12 and len(record["submissions"]) == 3, "nothing twice"
    calls = [turn["calls"] for turn in record["turns"]]
    assert sum(call["requests"] + call["retries"] for call in calls) == len(model.seen), "each request is counted"
    # A server that dies on a connection of an earlier call looks like one that closes it: the call is sent again.
    met = [fault for fault in faults if fault not in (*script.left, "gzip", "die")]
    assert len(script.left) <= 2 and sum(call["trouble"] for call in calls) >= len(met) - 1
    assert set(record["usage"]["sources"]) == {"gateway"}
