"""Derive run.json: a pure function of the ledger, and of the checkpoints' source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from evopolicygym import run_record
from evopolicygym.files import write_json
from evopolicygym.judge import scoring
from evopolicygym.judge.events import EpisodeStats, Turned
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.judge.submission import JUDGE_FAULTS
from evopolicygym.run_paths import RunPaths
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.splits import Split

STATUS = {
    RunPhase.OPEN: run_record.RunStatus.OPEN,
    RunPhase.CLOSED: run_record.RunStatus.CLOSED,
    RunPhase.SELECTED: run_record.RunStatus.CLOSED,
    RunPhase.FINISHED: run_record.RunStatus.FINISHED,
}
USAGE: Final = {
    "input_tokens": "fresh_input",
    "cached_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "dollars": "cost_usd",
}
AT_LEAST: Final = "at_least"  # names the amounts of a run's usage that are lower bounds
MESSAGE_LENGTH: Final = 500  # characters of a failed turn's message
CodeReader = Callable[[str], run_record.Code | None]


def write(paths: RunPaths, state: RunState, head: str, code: CodeReader = lambda _: None) -> run_record.RunRecord:
    """Write run.json, and beside it the hidden results of each case."""
    record = derive(state, head, code)
    write_json(paths.hidden / "validation.json", _by_checkpoint(state.validation))
    write_json(paths.hidden / "heldout.json", _by_checkpoint(state.heldout))
    write_json(paths.record, record.model_dump(mode="json"))
    return record


def derive(state: RunState, head: str, code: CodeReader = lambda _: None) -> run_record.RunRecord:
    """Return the record of a run. ``head`` is the hash of the ledger's last line, ``code`` reads code metrics of a
    checkpoint."""
    assert state.opened is not None and state.opened_at is not None
    facts = state.opened.facts
    return run_record.RunRecord(
        schema_version=run_record.VERSION,
        evopolicygym=facts["evopolicygym"],
        id=state.opened.run,
        status=STATUS[state.phase],
        task=run_record.TaskFacts(**facts["task"]),
        ids=_ids(state, facts["ids"]),
        options=run_record.Options(
            validation_cases=scoring.count(state, Split.VALIDATION),
            heldout_cases=scoring.count(state, Split.HELDOUT),
            max_candidates=state.opened.max_candidates,
            **facts["options"],
        ),
        name=facts.get("name"),
        agent=run_record.Agent(**facts["agent"]) if facts["agent"] else None,
        isolation=_isolation(state, facts),
        implementation="+".join(sorted({owner.implementation for owner in state.owned})),
        budget=_budget(state),
        submissions=[_submission(submission) for submission in state.submissions.values()],
        checkpoints=_checkpoints(state, code),
        outcome=_outcome(state),
        times=_times(state),
        integrity=run_record.Integrity(**state.inspected.note) if state.inspected else None,
        randomness_salt=_salt(state),
        turns=[_turn(turn) for turn in state.turns],
        suspended=_suspension(state),
        usage=_usage(state),
        ledger_head=head,
        entered=facts.get("entered", False),
    )


def _ids(state: RunState, opened: dict[str, Any]) -> run_record.RunIds:
    others = {owner.bit_id: None for owner in state.owned if owner.bit_id not in ("", opened["bit_id"])}
    return run_record.RunIds(**opened, other_bit_ids=list(others))


def _salt(state: RunState) -> str | None:
    """Return the salt of a closed run, with which its bits can be repeated. An agent could pass it to a policy."""
    if state.phase is RunPhase.OPEN or state.opened is None:
        return None
    return state.opened.salt or None


def _isolation(state: RunState, facts: dict[str, Any]) -> run_record.IsolationRecord:
    """Return the lowest isolation level of all owners of the run and all nodes that joined it."""
    achieved = (*(owner.level for owner in state.owned), *(joined.node.level for joined in state.joined))
    levels = {Level(level) for level in achieved}
    lowest = max(levels or {Level.NONE}, key=list(Level).index)
    agent = facts["agent_isolation"]
    publishable = Level.NONE not in (lowest, agent["level"])
    return run_record.IsolationRecord(
        policy=lowest,
        nodes=_nodes(state),
        agent=agent["level"],
        agent_network=agent["network"],
        agent_residues=agent.get("residues", []),
        policy_residues=_policy_residues(state),
        publishable=publishable,
    )


def _policy_residues(state: RunState) -> list[str]:
    """Return the residues of every level that an owner or node achieved, each once."""
    texts = [text for owner in state.owned for text in owner.residues]
    return list(dict.fromkeys(texts + [text for node in state.joined for text in node.residues]))


def _nodes(state: RunState) -> list[run_record.NodeRecord]:
    """Return the nodes that played episodes, each once, in the order in which they came."""
    seen = [node for owner in state.owned for node in owner.nodes] + [joined.node for joined in state.joined]
    return [run_record.NodeRecord(**asdict(node)) for node in {node.id: node for node in seen}.values()]


def _budget(state: RunState) -> run_record.Budget:
    return run_record.Budget(
        total=state.budget,
        charged=state.charged,
        remaining=state.remaining,
        refunds=state.refunds,
        refused=dict(sorted(state.refused.items())),
    )


def _submission(submission: Submission) -> run_record.SubmissionRecord:
    judged = submission.judged
    return run_record.SubmissionRecord(
        number=submission.number,
        checkpoint=submission.charged.checkpoint.hash,
        cases=list(submission.charged.cases),
        charged=submission.cost,
        charged_at=submission.charged_at,
        judged_at=submission.judged_at,
        verdict=judged.verdict if judged else None,
        refunded=submission.refunded is not None,
        train=result(judged.tally) if judged else None,
        clipped_actions=judged.clipped_actions if judged else 0,
        wall_s=judged.wall_s if judged else None,
    )


def _checkpoints(state: RunState, code: CodeReader) -> list[run_record.CheckpointRecord]:
    """Return the checkpoints in the order of their first submission."""
    submitted = [submission.charged.checkpoint for submission in state.submissions.values()]
    distinct = {checkpoint.hash: checkpoint for checkpoint in submitted}
    return [
        run_record.CheckpointRecord(
            hash=checkpoint.hash,
            files=checkpoint.files,
            bytes=checkpoint.bytes,
            code=code(checkpoint.hash),
            validation=result(validated.tally if (validated := state.validation.get(checkpoint.hash)) else None),
            heldout=result(measured.tally if (measured := state.heldout.get(checkpoint.hash)) else None),
        )
        for checkpoint in distinct.values()
    ]


def _outcome(state: RunState) -> run_record.Outcome | None:
    if state.phase is not RunPhase.FINISHED:
        return None
    winner = state.submissions[state.selected].charged.checkpoint.hash if state.selected else None
    return run_record.Outcome(
        kind=_kind(state, winner),
        submission=state.selected,
        checkpoint=winner,
        validation_mean=state.validation[winner].tally.mean if winner else None,
        heldout=result(state.heldout[winner].tally) if winner else None,
        repeat=_repeat(state, winner),
        stopped_early=state.remaining > 0,
        budget_left=state.remaining,
        cause=state.closed.cause if state.closed else None,
    )


def _kind(state: RunState, winner: str | None) -> run_record.OutcomeKind:
    """Return the kind of outcome. A score that was measured counts even if the judge failed later: otherwise an agent
    that can make it fail (by filling the disk) could have a bad run repeated."""
    if winner:
        return run_record.OutcomeKind.SCORED
    if state.closed and (state.closed.reason == JUDGE_FAULTS or state.closed.cause):
        return run_record.OutcomeKind.JUDGE_FAULT
    if not agent_worked(state):
        return run_record.OutcomeKind.NEVER_WORKED
    return run_record.OutcomeKind.NO_OK_SUBMIT


def agent_worked(state: RunState) -> bool:
    """Return whether the agent of a run ever did anything. One that used up its hours counts as having worked; a run
    that was served has no agent that could fail."""
    assert state.opened is not None
    if not state.opened.facts["agent"] or state.submissions:
        return True
    used_its_hours = state.closed is not None and state.closed.reason == "limit_hours"
    return used_its_hours or any(run_record.turn_worked(turn.failure, turn.usage) for turn in state.turns)


def _suspension(state: RunState) -> run_record.Suspension | None:
    if state.suspended is None or state.suspended_at is None:
        return None
    message = state.suspended.text[-MESSAGE_LENGTH:]
    return run_record.Suspension(reason=state.suspended.reason, since=state.suspended_at, message=message)


def _repeat(state: RunState, winner: str | None) -> run_record.Repeat | None:
    if winner is None or state.repeated is None:
        return None
    equal = state.repeated.returns == state.heldout[winner].tally.returns
    return run_record.Repeat.EQUAL if equal else run_record.Repeat.NONDETERMINISTIC


def _times(state: RunState) -> run_record.Times:
    judged = [submission.judged.wall_s for submission in state.submissions.values() if submission.judged]
    validated = [event.wall_s for event in state.validation.values()]
    scored = [event.wall_s for event in state.heldout.values()]
    assert state.opened_at is not None
    return run_record.Times(
        opened=state.opened_at,
        closed=state.closed_at,
        finished=state.finished_at,
        closed_because=state.closed.reason if state.closed else None,
        train_s=sum(judged),
        hidden_s=sum(validated) + sum(scored) + (state.repeated.wall_s if state.repeated else 0.0),
    )


def _turn(turn: Turned) -> run_record.TurnRecord:
    return run_record.TurnRecord(
        exit_code=turn.exit_code,
        wall_s=turn.wall_s,
        submissions=turn.submissions,
        failure=turn.failure,
        stop=turn.stop,
        model=turn.model,
        usage=turn.usage,
        price=turn.price,
        message=turn.text[-MESSAGE_LENGTH:] if turn.failure else None,
        calls=turn.calls,
    )


def _usage(state: RunState) -> dict[str, Any] | None:
    """Return sums over turns; None without an agent. An amount that some turns do not report is a lower bound, named in
    ``at_least``; one that no turn reports is unknown."""
    if not state.turns:
        return None
    usages = [turn.usage or {} for turn in state.turns]
    amounts = {name: [usage.get(key) for usage in usages] for name, key in USAGE.items()}
    if any(usage.get("requests") is not None for usage in usages):
        amounts["requests"] = [usage.get("requests") for usage in usages]
    sums = {name: _sum_of_known(parts) for name, parts in amounts.items()}
    bounds = [name for name, parts in amounts.items() if None in parts and sums[name] is not None]
    sources = sorted({usage["source"] for usage in usages if usage})
    facts = {**sums, "sources": sources, "turns": len(usages), "wall_s": sum(turn.wall_s for turn in state.turns)}
    return facts | ({AT_LEAST: bounds} if bounds else {})


def _sum_of_known(parts: list[float | None]) -> float | None:
    values = [part for part in parts if part is not None]
    return sum(values) if values else None


def result(played: EpisodeStats | None) -> run_record.Result | None:
    if played is None:
        return None
    return run_record.Result(
        returns=list(played.returns),
        lengths=list(played.lengths),
        errors=list(played.errors),
        mean=played.mean,
        std=played.std,
    )


def _by_checkpoint(results: dict[str, Any]) -> dict[str, Any]:
    return {name: shown.model_dump(mode="json") for name, event in results.items() if (shown := result(event.tally))}
