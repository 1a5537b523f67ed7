"""The next step of an agent is decided from the ledger alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from evopolicygym.judge.events import Closed, Opened, Suspended, Turned
from evopolicygym.judge.state import RunState, apply
from evopolicygym.runs.agent.decisions import CloseRun, PromptAgent, SuspendRun, decide
from evopolicygym.runs.agent.limits import AgentLimits

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPENED = apply(RunState(), Opened("r", 128, 16, 32, {"agent": {"name": "codex"}}), NOW)


def turned(submissions: int = 0, failure: str | None = None, **more: object) -> Turned:
    facts = {"session": "s", "exit_code": 0, "wall_s": 60.0, "usage": None, "text": "", "stop": False}
    return Turned(submissions=submissions, failure=failure, **facts | more)


Decision = CloseRun | SuspendRun | PromptAgent


def after(*events: Turned | Suspended, limits: AgentLimits = AgentLimits()) -> Decision:  # noqa: B008
    state = OPENED
    for event in events:
        state = apply(state, event, NOW)
    return decide(state, limits)


def test_the_first_prompt_opens_a_session():
    assert after() == PromptAgent(None)


def test_an_agent_that_submits_is_prompted_again():
    assert after(*(turned(n) for n in range(1, 20))) == PromptAgent("s")


def test_an_agent_that_says_stop_is_done():
    assert after(turned(1, stop=True)) == CloseRun("agent_stopped")


def test_three_turns_without_a_submission_end_the_run():
    assert after(turned(1), turned(1), turned(1)) == PromptAgent("s")
    assert after(turned(1), turned(1), turned(1), turned(1)) == CloseRun("agent_stopped")
    assert after(turned(0), turned(0), turned(1), turned(1), turned(1)) == PromptAgent("s")


def test_waits_grow_while_the_provider_is_overloaded():
    waits = [after(turned(1), *[turned(1, "rate_limit")] * n).wait_s for n in range(1, 9)]
    assert waits == [1, 3, 9, 27, 81, 243, 300, 300]
    assert after(turned(1), *[turned(1, "provider")] * 9) == SuspendRun("provider_down", is_seen=False)
    assert after(*[turned(1, "provider")] * 2000, limits=AgentLimits(retries=2000, hours=None)).wait_s == 300


def test_a_success_resets_the_wait():
    assert after(*[turned(0, "rate_limit")] * 8, turned(1), turned(1, "rate_limit")).wait_s == 1


def test_idle_and_failed_turns_are_counted_separately():
    assert after(turned(0), turned(0), turned(0, "client")) == PromptAgent("s")
    assert after(turned(1), *[turned(1, "client")] * 3) == CloseRun("agent_failed")
    failed = turned(1, "client")
    assert after(turned(1), failed, turned(1, "rate_limit"), failed, failed) == CloseRun("agent_failed")


def test_an_agent_that_never_worked_is_not_blamed():
    assert after(*[turned(0, "client")] * 2) == PromptAgent(None)
    assert after(*[turned(0, "client")] * 3) == SuspendRun("agent_never_worked")
    answered = turned(
        0, "client", usage={"fresh_input": 9, "cache_read": None, "cache_write": None, "output": 7, "cost_usd": None}
    )
    assert after(answered, *[turned(0, "client")] * 2) == CloseRun("agent_failed")
    assert after(turned(0, "turn_limit"), *[turned(0, "client")] * 2) == CloseRun("agent_failed")


def test_a_session_that_cannot_be_continued_is_given_up():
    """At once if the client says so, else when it fails twice in it; what the provider does is no reason."""
    lost = turned(1, "client", session=None, text="Error resuming session: No previous sessions found.")
    assert after(turned(1), turned(1, "provider"), lost) == PromptAgent(None)
    assert after(turned(1), lost, turned(2, session="new")) == PromptAgent("new")
    crashed = turned(1, "client", text="segmentation fault")
    assert after(turned(1), crashed) == PromptAgent("s")
    assert after(turned(1), crashed, crashed) == PromptAgent(None)
    assert after(turned(1), *[turned(1, "provider")] * 5).session == "s"


def test_silence_is_not_held_against_the_agent():
    """The client may be silent, or the provider that it waits for: the judge cannot know which."""
    assert after(turned(1), *[turned(1, "timeout")] * 2) == PromptAgent("s")
    assert after(turned(1), *[turned(1, "timeout")] * 3) == SuspendRun("silence", is_seen=False)


def test_a_suspended_run_starts_counting_anew():
    down = [turned(1, "provider")] * 9
    assert after(turned(1), *down) == SuspendRun("provider_down", is_seen=False)
    suspended = Suspended("provider_down", "")
    assert after(turned(1), *down, suspended) == PromptAgent("s")
    assert after(turned(1), *down, suspended, *down[:2]).wait_s == 3
    assert after(turned(1), *down, suspended, *down) == SuspendRun("provider_down", is_seen=False)
    assert after(turned(1), *down, suspended, turned(1), turned(1)) == PromptAgent("s")
    assert after(turned(1), *down, suspended, *[turned(1)] * 3) == CloseRun("agent_stopped")


def test_an_agent_cannot_suspend_its_run_for_ever():
    """Without the gateway its word is all there is: five times, unless it submits in between."""
    again = [*[turned(1, "provider")] * 9, Suspended("provider_down", "")]
    assert after(turned(1), *again * 4, *again[:-1]) == SuspendRun("provider_down", is_seen=False)
    assert after(turned(1), *again * 5, *again[:-1]) == CloseRun("agent_failed")
    seen = turned(1, "provider", calls={"requests": 2, "trouble": 1})
    assert after(turned(1), *again * 5, *[seen] * 9) == SuspendRun("provider_down"), "the gateway saw it"


def test_alternating_idle_and_failed_turns_end_the_run():
    by_turns = [turned(1, "client"), turned(1)] * 3
    assert after(turned(1), *by_turns[:4]) == PromptAgent("s")
    assert after(turned(1), *by_turns) == CloseRun("agent_stopped")
    assert after(turned(1), *by_turns[:4], turned(2), *[turned(2, "client"), turned(2)] * 2) == PromptAgent("s")


def test_a_refused_api_key_is_tried_three_times():
    refused = [turned(1, "authentication")] * 3
    assert [after(turned(1), *refused[:n]).wait_s for n in (1, 2)] == [1, 3]
    assert after(turned(1), *refused) == SuspendRun("authentication", is_seen=False)
    assert after(turned(1), *refused[:2], turned(1), *refused[:2]) == PromptAgent("s", 3)
    mixed = [turned(1, "authentication"), turned(1, "provider")] * 5
    assert after(turned(1), *mixed) == SuspendRun("provider_down", is_seen=False), "not for ever"


@pytest.mark.parametrize("kind", ["authentication", "provider", "rate_limit", "timeout"])
def test_trouble_that_the_gateway_did_not_see_is_the_clients(kind):
    """Otherwise an agent could turn a bad run into a missing one. Before it has worked, it has nothing to hide."""
    unseen = turned(1, kind, calls={"requests": 2, "trouble": 0})
    assert after(turned(1), *[unseen] * 2).wait_s == 0
    assert after(turned(1), *[unseen] * 3) == CloseRun("agent_failed")
    seen = turned(1, kind, calls={"requests": 2, "trouble": 1})
    reason = {"authentication": "authentication", "timeout": "silence"}.get(kind, "provider_down")
    assert after(turned(1), *[seen] * 9) == SuspendRun(reason)
    never = turned(0, kind, calls={"requests": 0, "trouble": 0})
    assert after(*[never] * 9) == SuspendRun(reason)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (AgentLimits(turns=2), "limit_turns"),
        (AgentLimits(hours=1 / 30), "limit_hours"),
        (AgentLimits(tokens=300), "limit_tokens"),
        (AgentLimits(dollars=0.5), "limit_dollars"),
    ],
)
def test_limits_end_a_run(limits, reason):
    usage = {"fresh_input": 100, "cache_read": 30, "cache_write": 0, "output": 20, "reasoning": 10, "cost_usd": 0.25}
    turns = [turned(n, usage=usage) for n in (1, 2)]
    assert isinstance(after(turns[0], limits=limits), PromptAgent)
    assert after(*turns, limits=limits) == CloseRun(reason)


def test_unknown_usage_reaches_no_limit():
    assert after(turned(1), limits=AgentLimits(tokens=1, dollars=0.0001)) == PromptAgent("s")


def test_a_closed_run_is_over():
    assert decide(apply(OPENED, Closed("budget_spent"), NOW), AgentLimits()) == CloseRun("budget_spent")


def test_remaining_limits_are_described():
    usage = {"fresh_input": 100, "cache_read": 0, "cache_write": 0, "output": 20, "reasoning": 0, "cost_usd": 0.25}
    remaining = AgentLimits(turns=3, hours=2, tokens=10_120, dollars=1).remaining(
        [turned(1, usage=usage, wall_s=1800.0)]
    )
    assert remaining == ["2 turns", "1.5 hours", "10,000 tokens"]


@pytest.mark.parametrize(("hours", "words"), [(100, "100 hours"), (23.72, "23.7 hours"), (0.001, "1 minutes")])
def test_durations_are_readable(hours, words):
    assert AgentLimits(turns=1, hours=hours).remaining([]) == ["1 turn, which is this one", words]
