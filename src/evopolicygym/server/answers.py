"""What the door answers, as published: the models are the schema, and the schema is in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from evopolicygym.judge.state import Submission
from evopolicygym.judge.verdicts import Reason, Verdict

FAILED: Final = (
    "the judge failed, through no fault of yours: {}. The episodes are refunded and the policy needs no change: submit "
    "again"
)
BROKEN: Final = (
    "the judge is broken, through no fault of yours: {}. The episodes are refunded, the policy needs no change, and "
    "trying again cannot help: the run is closed, stop here"
)


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Failure(Answer):
    """``episode`` is its number in the submission; null when the policy did not even load."""

    episode: int | None
    env_instance: int | None
    kind: str
    message: str


class LeftOut(Answer):
    episode: int
    what: str


class Summary(Answer):
    """summary.json. Returns are in the order of ``env_instances``; means are null when nothing was played."""

    submit_id: str
    status: Verdict
    env_instances: list[int]
    n_episodes: int
    returns: list[float]
    lengths: list[int]
    mean_return: float | None
    std_return: float | None
    min_return: float | None
    max_return: float | None
    terminated: list[bool]
    truncated: list[bool]
    n_failed: int
    errors: list[Failure]
    invalid_actions: int
    clipped_actions: int
    wall_time_s: float
    remaining_budget: int
    feedback: str
    left_out: list[LeftOut]


class Submitted(Answer):
    """``status`` is the verdict, ``running`` before there is one, or ``fault`` when the judge itself failed."""

    submit_id: str | None
    status: str
    remaining_budget: int
    summary: Summary | None = None
    message: str | None = None
    candidates: list[str] | None = Field(
        default=None, description="where their number is limited: the submissions that can still be chosen, as of now"
    )


class Refused(Answer):
    """Nothing was charged."""

    status: Reason
    message: str
    remaining_budget: int


class NotFound(Answer):
    message: str


class State(Answer):
    remaining_budget: int
    n_submits: int
    is_finalized: bool
    phase: str = Field(description="open or closed")
    running: str | None = Field(description="submit_id of the submission that is being executed")


class EnvMeta(Answer):
    env: str
    task: str
    env_version: int
    n_env_instances: int
    max_episode_steps: int
    obs_space: dict[str, Any]
    action_space: dict[str, Any]
    obs_storage: dict[str, str] = Field(description="for each array that is too large for JSON, the file it is in")


class Info(Answer):
    protocol_version: str
    state: State
    env_meta: EnvMeta
    episode_budget: int
    min_episodes_per_submit: int
    max_episodes_per_submit: int
    resource_limits: dict[str, float]
    allowed_imports: list[str]
    denied_imports: list[str]
    max_candidates: int | None = Field(
        default=None,
        description="one of the last so many distinct checkpoints is chosen; null: one of all",
    )


def broken(fault: object, remaining: int) -> Submitted:
    text = (
        f"the judge failed, through no fault of yours: {fault}. A submission that was accepted goes on when the server "
        "is back, for the same charge"
    )
    return Submitted(submit_id=None, status="fault", remaining_budget=remaining, message=text)


def submitted(one: Submission, remaining: int, is_executing: bool = False) -> Submitted:
    if is_executing or one.is_running:
        return Submitted(submit_id=one.name, status="running", remaining_budget=remaining)
    if one.refunded is not None:
        text = (BROKEN if one.fault_is_permanent else FAILED).format(one.refunded)
        return Submitted(submit_id=one.name, status="fault", remaining_budget=remaining, message=text)
    assert one.judged is not None
    summary = Summary.model_validate(one.judged.summary)
    return Submitted(
        submit_id=one.name, status=one.judged.verdict, remaining_budget=summary.remaining_budget, summary=summary
    )
