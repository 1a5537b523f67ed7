"""Writes a conversation as ATIF, the Agent Trajectory Interchange Format of the Harbor project (version 1.7).

Threads of the main agent are the trajectory's steps, one after the other; sub-agents and side calls are embedded as
trajectories of their own. A step of the agent is one answer with the results of its tool calls. Submissions and failed
calls are system steps with their facts in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from evopolicygym.agents.usage import Usage
from evopolicygym.gateway.conversation import (
    ConversationStep,
    ConversationThread,
    ModelConversation,
    StepKind,
    ThreadKind,
)
from evopolicygym.gateway.messages import MessagePart, PartKind
from evopolicygym.gateway.streams import parse_json

VERSION: Final = "ATIF-v1.7"
SOURCES: Final = {StepKind.ASSISTANT: "agent", StepKind.USER: "user"}


def to_atif(conversation: ModelConversation, agent: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Return the trajectory of a run. ``agent``: its name, version and model."""
    threads = conversation.threads
    main = [thread for thread in threads if thread.kind is ThreadKind.MAIN]
    others = [thread for thread in threads if thread.kind is not ThreadKind.MAIN]
    trajectory = _trajectory(main, agent, run_id, run_id)
    if others:
        trajectory["subagent_trajectories"] = [
            _trajectory([thread], agent, run_id, f"{run_id}-{number}") | {"extra": {"kind": str(thread.kind)}}
            for number, thread in enumerate(others, 1)
        ]
    if conversation.notes:
        trajectory["notes"] = "; ".join(conversation.notes)
    return trajectory


def _trajectory(
    threads: Sequence[ConversationThread], agent: dict[str, Any], run_id: str, identity: str
) -> dict[str, Any]:
    steps = _steps([step for thread in threads for step in thread.steps])
    tools = list(dict.fromkeys(name for thread in threads for name in thread.tools))
    return {
        "schema_version": VERSION,
        "session_id": run_id,
        "trajectory_id": identity,
        "agent": {
            "name": agent.get("name") or "unknown",
            "version": agent.get("version") or "unknown",
            **({"model_name": agent["model"]} if agent.get("model") else {}),
            **({"tool_definitions": [_tool(name) for name in tools]} if tools else {}),
        },
        "steps": steps or [{"step_id": 1, "source": "system", "message": "no call was recorded"}],
        "final_metrics": _totals([step.get("metrics", {}) for step in steps], len(steps)),
    }


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _steps(steps: Iterable[ConversationStep]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    callers: dict[str, dict[str, Any]] = {}  # steps by the ids of their tool calls
    for step in steps:
        if step.kind is StepKind.TOOL:
            loose = [part for part in step.parts if not _observe(part, callers)]
            if not loose:
                continue
            written.append(_step(step, len(written) + 1, loose))
            continue
        written.append(_step(step, len(written) + 1, step.parts))
        callers |= {call["tool_call_id"]: written[-1] for call in written[-1].get("tool_calls", ())}
    return written


def _observe(part: MessagePart, callers: dict[str, dict[str, Any]]) -> bool:
    """Put a tool's result into the step that called it; return whether there is one."""
    step = callers.get(part.id)
    if step is None or part.kind is not PartKind.RESULT:
        return False
    results = step.setdefault("observation", {"results": []})["results"]
    results.append({"source_call_id": part.id, "content": part.text})
    return True


def _step(step: ConversationStep, number: int, parts: Sequence[MessagePart]) -> dict[str, Any]:
    written: dict[str, Any] = {
        "step_id": number,
        "timestamp": datetime.fromtimestamp(step.at, UTC).isoformat().replace("+00:00", "Z"),
        "source": SOURCES.get(step.kind, "system"),
        "message": "\n\n".join(_words(part) for part in parts if part.kind not in (PartKind.CALL, PartKind.REASONING)),
    }
    if step.kind is StepKind.ASSISTANT:
        written |= _answer(step, parts)
    elif step.kind is StepKind.SUBMISSION:
        written["extra"] = {"kind": "submission", "submission": step.submission}
    elif step.kind is not StepKind.USER:
        written["extra"] = {"kind": str(step.kind)}
    return written


def _answer(step: ConversationStep, parts: Sequence[MessagePart]) -> dict[str, Any]:
    reasoning = "\n\n".join(part.text for part in parts if part.kind is PartKind.REASONING and part.text)
    calls = [
        {
            "tool_call_id": part.id or f"call-{step.call}-{number}",
            "function_name": part.name,
            "arguments": _arguments(part.text),
        }
        for number, part in enumerate(parts)
        if part.kind is PartKind.CALL
    ]
    facts: dict[str, Any] = {"model_name": step.model, "reasoning_content": reasoning, "tool_calls": calls}
    facts |= {"metrics": _metrics(step.usage) if step.usage else {}}
    extra = {"call": step.call, "turn": step.turn, "seconds": round(step.seconds, 4)}
    return {name: value for name, value in facts.items() if value} | {"llm_call_count": 1, "extra": extra}


def _words(part: MessagePart) -> str:
    return part.text if part.kind in (PartKind.TEXT, PartKind.RESULT) else f"[{part.kind}: {part.text}]"


def _arguments(text: str) -> dict[str, Any]:
    """Return a tool's arguments as the object that ATIF requires; some tools take plain text."""
    value = parse_json(text)
    return value if isinstance(value, dict) else {"input": text if value is None else value}


def _metrics(usage: Usage) -> dict[str, Any]:
    inputs = [amount for amount in (usage.fresh_input, usage.cache_read, usage.cache_write) if amount is not None]
    facts = {
        "prompt_tokens": sum(inputs) if inputs else None,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
        "cost_usd": usage.cost_usd,
    }
    extra = {"reasoning_tokens": usage.reasoning, "cache_write_tokens": usage.cache_write}
    details = {name: value for name, value in extra.items() if value is not None}
    return {name: value for name, value in facts.items() if value is not None} | ({"extra": details} if details else {})


def _totals(metrics: Sequence[dict[str, Any]], steps: int) -> dict[str, Any]:
    totals: dict[str, Any] = {"total_steps": steps}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
        amounts = [step[name] for step in metrics if name in step]
        totals |= {f"total_{name}": sum(amounts)} if amounts else {}
    return totals
