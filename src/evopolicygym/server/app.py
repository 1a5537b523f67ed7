"""The HTTP door: what an agent can ask. Under an unguessable path, on loopback, one run behind it."""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evopolicygym.errors import Fault
from evopolicygym.execution.recording import large_arrays
from evopolicygym.judge import protocol
from evopolicygym.judge.protocol import MAX_EPISODES, MIN_EPISODES, TRAIN_CASES, Reason, Refusal
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.sandbox.policy.policy_main import DENIED_IMPORTS
from evopolicygym.server import api_schema
from evopolicygym.server.submission_queue import SubmissionQueue
from evopolicygym.tasks.ids import PROTOCOL
from evopolicygym.tasks.task import Task

MAX_BODY: Final = 64 << 10
MAX_UNDER_WAY: Final = 32  # submissions that wait for their turn or for their answer, each on a connection
CODES: Final = {
    Reason.BUSY: 409,
    Reason.RUN_CLOSED: 409,
    Reason.TOO_LARGE: 413,
    Reason.KEY_REUSED: 422,
}


@dataclass(frozen=True)
class ServedTask:
    """What does not change during a run."""

    task: Task
    text: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]


class ApiHandlers:
    """Handlers. Every answer is one of the models in ``answers``."""

    def __init__(self, desk: SubmissionQueue, facts: ServedTask) -> None:
        self._desk, self._facts = desk, facts
        self._under_way = 0

    async def info(self, _: Request) -> Response:
        return _json(info(self._desk.state, self._facts))

    async def task(self, _: Request) -> Response:
        return PlainTextResponse(self._facts.text, media_type="text/markdown")

    async def submit(self, request: Request) -> Response:
        body = await _body(request)
        self._under_way += 1
        try:
            return await self._submit(request, body)
        finally:
            self._under_way -= 1

    async def _submit(self, request: Request, body: bytes) -> Response:
        ask = protocol.read_request(body, request.headers.get("idempotency-key"))
        if self._under_way > MAX_UNDER_WAY:
            raise Refusal(Reason.BUSY, f"{MAX_UNDER_WAY} submissions wait for an answer; submit again later")
        accepted = await self._desk.submit(ask)
        if not ask.wait or "respond-async" in request.headers.get("prefer", ""):
            return self._submitted(accepted, 202)
        ended = await self._desk.ended(accepted.number)
        return self._submitted(ended, 503 if ended.refunded else 200)

    async def submission(self, request: Request) -> Response:
        asked = request.path_params["submit_id"]
        found = next((one for one in self._desk.state.submissions.values() if one.name == asked), None)
        if found is None:
            return _json(api_schema.NotFound(message="there is no such submission"), 404)
        return self._submitted(found)

    async def finalize(self, _: Request) -> Response:
        text = "an agent cannot end its run: it ends when the budget is spent or the agent stops"
        return _json(api_schema.NotFound(message=text), 405, {"Allow": ""})

    async def broken(self, _: Request, fault: Exception) -> Response:
        what = fault if isinstance(fault, Fault) else type(fault).__name__
        return _json(api_schema.broken(what, self._desk.state.remaining), 503)

    def _submitted(self, one: Submission, code: int = 200) -> Response:
        state, is_executing = self._desk.state, self._desk.is_executing(one.number)
        answer = api_schema.submitted(one, state.remaining, is_executing)
        if state.opened and state.opened.max_candidates:
            answer = answer.model_copy(update={"candidates": [kept.name for kept in state.candidates]})
        return _json(answer, code)

    async def refused(self, _: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        await self._desk.refused(refusal)
        left = self._desk.state.remaining
        answer = api_schema.RefusedResponse(status=refusal.reason, message=refusal.text, remaining_budget=left)
        return _json(answer, CODES.get(refusal.reason, 400))


def info(state: RunState, facts: ServedTask) -> api_schema.Info:
    task = facts.task
    meta = task.env_meta() | {
        "n_env_instances": TRAIN_CASES,
        "obs_space": facts.obs_space,
        "action_space": facts.action_space,
        "obs_storage": {name: "observations.npz" for name, _ in large_arrays(facts.obs_space)},
    }
    return api_schema.Info(
        protocol_version=PROTOCOL,
        state=api_schema.State(
            remaining_budget=state.remaining,
            n_submits=len(state.submissions),
            is_finalized=state.phase is not RunPhase.OPEN,
            phase="open" if state.phase is RunPhase.OPEN else "closed",
            running=state.running.name if state.running else None,
        ),
        env_meta=api_schema.EnvMeta(**meta),
        episode_budget=state.budget,
        min_episodes_per_submit=MIN_EPISODES,
        max_episodes_per_submit=min(MAX_EPISODES, state.budget),
        resource_limits=asdict(task.limits),
        allowed_imports=["the standard library", "numpy", "scipy", "files beside policy.py"],
        denied_imports=sorted(DENIED_IMPORTS),
        max_candidates=state.opened.max_candidates if state.opened else None,
    )


def build_app(desk: SubmissionQueue, facts: ServedTask, token: str) -> Starlette:
    """All routes live below the token; without it there is nothing here."""
    door = ApiHandlers(desk, facts)
    routes = [
        Route("/{token}/info", door.info, methods=["GET"]),
        Route("/{token}/task", door.task, methods=["GET"]),
        Route("/{token}/submit", door.submit, methods=["POST"]),
        Route("/{token}/submissions/{submit_id}", door.submission, methods=["GET"]),
        Route("/{token}/openapi.json", _openapi, methods=["GET"]),
        Route("/{token}/finalize", door.finalize),
    ]
    handlers: dict[Any, Any] = {Refusal: door.refused, HTTPException: _http_error, ClientDisconnect: _gone}
    handlers |= dict.fromkeys((Fault, Exception), door.broken)
    made = Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(_Guard, token)])
    made.router.redirect_slashes = False  # a door has no other spellings
    return made


class _Guard:
    """Before any routing: not even which paths and methods there are is told without the token."""

    def __init__(self, behind: ASGIApp, token: str) -> None:
        self._behind, self._token = behind, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = scope["path"].lstrip("/").partition("/")[0].encode(errors="replace")
        known = hmac.compare_digest(given, self._token)
        await (self._behind if known else _json(api_schema.NotFound(message="Not Found"), 404))(scope, receive, send)


async def _body(request: Request) -> bytes:
    """At most MAX_BODY bytes are ever held."""
    body, declared = b"", int(request.headers.get("content-length") or 0)
    if declared > MAX_BODY:
        raise _too_large()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _too_large()
    return body


def _too_large() -> Refusal:
    return Refusal(Reason.TOO_LARGE, f"a request may have {MAX_BODY >> 10} KiB")


async def _openapi(request: Request) -> Response:
    document = api_schema.openapi_document(server=f"/{request.path_params['token']}")
    return Response(json.dumps(document), media_type="application/json")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(api_schema.NotFound(message=error.detail), error.status_code, error.headers)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)


def _json(answer: BaseModel, code: int = 200, headers: Any = None) -> Response:
    return Response(answer.model_dump_json(), code, headers, "application/json")
