"""The OpenAPI document of the door, from the models that it answers with."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from evopolicygym.json_schema import publish
from evopolicygym.judge.requests import KEY, SubmitBody
from evopolicygym.judge.verdicts import Reason, Verdict
from evopolicygym.server import answers
from evopolicygym.tasks.ids import PROTOCOL

MODELS: Final[tuple[type[BaseModel], ...]] = (
    SubmitBody,
    answers.Submitted,
    answers.Refused,
    answers.NotFound,
    answers.Info,
)

# Under which names the schemas are published: a class may get another name, its schema does not.
NAMES: Final[dict[type, str]] = {
    SubmitBody: "SubmitBody",
    answers.Submitted: "Submitted",
    answers.Refused: "Refused",
    answers.NotFound: "NotFound",
    answers.Info: "Info",
    answers.EnvMeta: "EnvMeta",
    answers.Failure: "Failure",
    answers.LeftOut: "LeftOut",
    answers.State: "State",
    answers.Summary: "Summary",
    Reason: "Reason",
    Verdict: "Verdict",
}


def document(server: str) -> dict[str, Any]:
    """``server`` is the path under which the door is: it holds the token."""
    _, schemas = models_json_schema(
        [(model, "serialization" if model is not SubmitBody else "validation") for model in MODELS],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "The door of an EvoPolicyGym run", "version": PROTOCOL},
        "servers": [{"url": server}],
        "paths": {
            "/info": {"get": _operation("Budget, limits and spaces.", _answers({200: answers.Info}))},
            "/task": {"get": _operation("The task text, as Markdown.", {"200": _markdown()})},
            "/submit": {"post": _submit()},
            "/submissions/{submit_id}": {"get": _submission()},
        },
        "components": {"schemas": publish(schemas, NAMES)["$defs"]},
    }


def _submit() -> dict[str, Any]:
    codes: dict[int, type[BaseModel]] = {
        200: answers.Submitted,
        202: answers.Submitted,
        **dict.fromkeys((400, 409, 413, 422), answers.Refused),
        503: answers.Submitted,
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
    codes: dict[int, type[BaseModel]] = {200: answers.Submitted, 404: answers.NotFound}
    name = {"name": "submit_id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {**_operation("How a submission stands.", _answers(codes)), "parameters": [name]}


def _operation(summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "responses": responses}


def _answers(codes: dict[int, type[BaseModel]]) -> dict[str, Any]:
    return {
        str(code): {"description": (model.__doc__ or NAMES[model]).strip(), "content": _json_content(model)}
        for code, model in codes.items()
    }


def _json_content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{NAMES[model]}"}}}


def _markdown() -> dict[str, Any]:
    return {"description": "Markdown", "content": {"text/markdown": {"schema": {"type": "string"}}}}


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
