"""Responses of the HTTP API as models, and the OpenAPI document that is made from them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from evopolicygym.json_schema import publish
from evopolicygym.judge.feedback import shown_summary
from evopolicygym.judge.protocol import KEY, Reason, SubmitBody, Verdict
from evopolicygym.judge.state import Submission
from evopolicygym.tasks.conditions import FeedbackLevel
from evopolicygym.tasks.ids import PROTOCOL

FAILED: Final = (
    "the judge failed, through no fault of yours: {}. The episodes are refunded and the policy needs no change: submit "
    "again"
)
BROKEN: Final = (
    "the judge is broken, through no fault of yours: {}. The episodes are refunded, the policy needs no change, and "
    "trying again cannot help: the run is closed, stop here"
)


class ApiModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class EpisodeFailure(ApiModel):
    """``episode`` is its number in the submission; null when the policy did not even load, and at feedback level score,
    where ``count`` episodes have failed in this way."""

    episode: int | None
    env_instance: int | None
    kind: str
    message: str
    count: int = 1


class ReturnComparison(ApiModel):
    """Differences to the returns of ``against``, in the order of ``env_instances``; null for cases that it did not
    play, or that failed on either side."""

    against: str
    mean: float | None
    cases: list[float | None]


class Change(ReturnComparison):
    """Differences to an earlier submission, and to the best one (absent in older runs)."""

    best: ReturnComparison | None = None


class WorstEpisode(ApiModel):
    """The episode with the lowest return. ``file`` shows its observations at ``steps``, if they can be drawn."""

    episode: int
    env_instance: int
    return_: float = Field(alias="return")
    file: str | None = None
    steps: list[int] | None = None


class LeftOut(ApiModel):
    episode: int
    what: str


class Summary(ApiModel):
    """summary.json. Returns are in the order of ``env_instances``; means are null when nothing was played. Which keys
    there are depends on the run's feedback level: the required ones at `score`."""

    submit_id: str
    status: Verdict
    env_instances: list[int]
    n_episodes: int
    returns: list[float] = []
    lengths: list[int] = []
    mean_return: float | None
    std_return: float | None = None
    min_return: float | None = None
    max_return: float | None = None
    terminated: list[bool] = []
    truncated: list[bool] = []
    n_failed: int
    errors: list[EpisodeFailure]
    invalid_actions: int = 0
    clipped_actions: int = 0
    wall_time_s: float | None = None
    remaining_budget: int
    feedback: str
    change: Change | None = None
    policy_cpu_s: list[float] = Field(default=[], description="CPU time of each policy process, import included")
    act_cpu_ms: list[float] = Field(default=[], description="mean CPU time of an action, for each episode")
    longest_act_cpu_ms: list[float] = Field(default=[], description="CPU time of the longest action, likewise")
    worst: WorstEpisode | None = None
    left_out: list[LeftOut] = []
    removed: list[str] = Field(default=[], description="submissions whose large files were removed to make room")


class Submitted(ApiModel):
    """``status`` is the verdict, ``running`` before there is one, or ``fault`` when the judge itself failed."""

    submit_id: str | None
    status: str
    remaining_budget: int
    summary: Summary | None = None
    message: str | None = None
    candidates: list[str] | None = Field(
        default=None, description="if their number is limited: the submissions that validation currently chooses among"
    )


class RefusedResponse(ApiModel):
    """Nothing was charged."""

    status: Reason
    message: str
    remaining_budget: int


class NotFound(ApiModel):
    message: str


class State(ApiModel):
    remaining_budget: int
    n_submits: int
    is_finalized: bool
    phase: str = Field(description="open or closed")
    running: str | None = Field(description="submit_id of the submission that is being executed")


class EnvMeta(ApiModel):
    env: str
    task: str
    env_version: int
    n_env_instances: int
    max_episode_steps: int
    obs_space: dict[str, Any]
    action_space: dict[str, Any]
    obs_storage: dict[str, str] = Field(description="for each array that is too large for JSON, the file it is in")


class Info(ApiModel):
    protocol_version: str
    state: State
    env_meta: EnvMeta
    episode_budget: int
    min_episodes_per_submit: int
    max_episodes_per_submit: int
    resource_limits: dict[str, float]
    allowed_imports: list[str]
    denied_imports: list[str]
    feedback: FeedbackLevel = Field(description="what comes back for a submission")
    max_candidates: int | None = Field(
        default=None,
        description="validation chooses among the last so many distinct checkpoints; null: among all",
    )


def broken(fault: object, remaining: int) -> Submitted:
    text = (
        f"the judge failed, through no fault of yours: {fault}. A submission that was accepted continues when the "
        "server is back, for the same charge"
    )
    return Submitted(submit_id=None, status="fault", remaining_budget=remaining, message=text)


def submitted(submission: Submission, remaining: int, level: FeedbackLevel, is_executing: bool = False) -> Submitted:
    """Return the state of a submission, with as much of its summary as the feedback level shows."""
    if is_executing or submission.is_running:
        return Submitted(submit_id=submission.name, status="running", remaining_budget=remaining)
    if submission.refunded is not None:
        text = (BROKEN if submission.fault_is_permanent else FAILED).format(submission.refunded)
        return Submitted(submit_id=submission.name, status="fault", remaining_budget=remaining, message=text)
    assert submission.judged is not None
    summary = Summary.model_validate(shown_summary(submission.judged.summary, level))
    return Submitted(
        submit_id=submission.name,
        status=submission.judged.verdict,
        remaining_budget=summary.remaining_budget,
        summary=summary,
    )


MODELS: Final[tuple[type[BaseModel], ...]] = (
    SubmitBody,
    Submitted,
    RefusedResponse,
    NotFound,
    Info,
)

# Published names of the schemas, where they differ from the class: renaming a class must not rename its schema.
NAMES: Final[dict[type, str]] = {
    RefusedResponse: "Refused",
    EpisodeFailure: "Failure",
}


def openapi_document(server: str) -> dict[str, Any]:
    """Build the OpenAPI document. ``server`` is the base path of the API, with the token."""
    _, schemas = models_json_schema(
        [(model, "serialization" if model is not SubmitBody else "validation") for model in MODELS],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "The API of an EvoPolicyGym run", "version": PROTOCOL},
        "servers": [{"url": server}],
        "paths": {
            "/info": {"get": _operation("Budget, limits and spaces.", _answers({200: Info}))},
            "/task": {"get": _operation("The task text, as Markdown.", {"200": _markdown()})},
            "/submit": {"post": _submit()},
            "/submissions/{submit_id}": {"get": _submission()},
        },
        "components": {"schemas": publish(schemas, NAMES)["$defs"]},
    }


def _submit() -> dict[str, Any]:
    codes: dict[int, type[BaseModel]] = {
        200: Submitted,
        202: Submitted,
        **dict.fromkeys((400, 409, 413, 422), RefusedResponse),
        503: Submitted,
    }
    return {
        **_operation("Submit system/ for train episodes.", _answers(codes)),
        "parameters": [
            _header("Idempotency-Key", "Repeating a request with its key repeats nothing.", {
                "type": "string", "pattern": KEY.pattern}),
            _header("Prefer", "respond-async: answer 202 at once.", {"type": "string", "examples": ["respond-async"]}),
        ],
        "requestBody": {"required": True, "content": _json_content(SubmitBody)},
    }  # fmt: skip


def _submission() -> dict[str, Any]:
    codes: dict[int, type[BaseModel]] = {200: Submitted, 404: NotFound}
    name = {"name": "submit_id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {**_operation("The state of a submission.", _answers(codes)), "parameters": [name]}


def _operation(summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "responses": responses}


def _answers(codes: dict[int, type[BaseModel]]) -> dict[str, Any]:
    return {
        str(code): {
            "description": (model.__doc__ or NAMES.get(model, model.__name__)).strip(),
            "content": _json_content(model),
        }
        for code, model in codes.items()
    }


def _json_content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{NAMES.get(model, model.__name__)}"}}}


def _markdown() -> dict[str, Any]:
    return {"description": "Markdown", "content": {"text/markdown": {"schema": {"type": "string"}}}}


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
