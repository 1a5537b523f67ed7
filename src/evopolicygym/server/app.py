"""The HTTP API of one run: routes and handlers, below an unguessable path."""

from __future__ import annotations

import hmac
import json
import logging
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
from evopolicygym.execution.recording import ARRAYS_FILE, large_arrays
from evopolicygym.judge import protocol
from evopolicygym.judge.protocol import MAX_EPISODES, MIN_EPISODES, TRAIN_CASES, Reason, Refusal
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.sandbox.policy.policy_main import DENIED_IMPORTS
from evopolicygym.server import api_schema
from evopolicygym.server.submission_queue import SubmissionQueue
from evopolicygym.tasks.conditions import ERROR_WITHHELD, FeedbackLevel
from evopolicygym.tasks.ids import PROTOCOL
from evopolicygym.tasks.task import Task

log = logging.getLogger(__name__)
MAX_BODY: Final = 64 << 10
MAX_UNDER_WAY: Final = 32  # submit requests that wait for a response, each on a connection
CODES: Final = {
    Reason.BUSY: 409,
    Reason.RUN_CLOSED: 409,
    Reason.TOO_LARGE: 413,
    Reason.KEY_REUSED: 422,
}


@dataclass(frozen=True)
class ServedTask:
    """Facts of a task that the API serves; they do not change during a run."""

    task: Task
    text: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]
    feedback: FeedbackLevel = FeedbackLevel.TRAJECTORY


class ApiHandlers:
    """Request handlers. Every response is one of the models in ``api_schema``."""

    def __init__(self, queue: SubmissionQueue, served: ServedTask) -> None:
        self._queue, self._served = queue, served
        self._under_way = 0

    async def info(self, _: Request) -> Response:
        return _json(info(self._queue.state, self._served))

    async def task(self, _: Request) -> Response:
        return PlainTextResponse(self._served.text, media_type="text/markdown")

    async def submit(self, request: Request) -> Response:
        body = await _body(request)
        self._under_way += 1
        try:
            return await self._submit(request, body)
        finally:
            self._under_way -= 1

    async def _submit(self, request: Request, body: bytes) -> Response:
        submit = protocol.read_request(body, request.headers.get("idempotency-key"))
        if self._under_way > MAX_UNDER_WAY:
            raise Refusal(Reason.BUSY, f"{MAX_UNDER_WAY} submissions wait for an answer; submit again later")
        accepted = await self._queue.submit(submit)
        if not submit.wait or "respond-async" in request.headers.get("prefer", ""):
            return self._submitted(accepted, 202)
        ended = await self._queue.ended(accepted.number)
        return self._submitted(ended, 503 if ended.refunded else 200)

    async def submission(self, request: Request) -> Response:
        name = request.path_params["submit_id"]
        submission = next((each for each in self._queue.state.submissions.values() if each.name == name), None)
        if submission is None:
            return _json(api_schema.NotFound(message="there is no such submission"), 404)
        return self._submitted(submission)

    async def finalize(self, _: Request) -> Response:
        text = "an agent cannot end its run: it ends when the budget is spent or the agent stops"
        return _json(api_schema.NotFound(message=text), 405, {"Allow": ""})

    async def broken(self, _: Request, fault: Exception) -> Response:
        text = fault if isinstance(fault, Fault) else type(fault).__name__
        if self._served.task.view.is_blind:
            log.error("a request failed: %s", text)
            text = ERROR_WITHHELD
        return _json(api_schema.broken(text, self._queue.state.remaining), 503)

    def _submitted(self, submission: Submission, code: int = 200) -> Response:
        state, is_executing = self._queue.state, self._queue.is_executing(submission.number)
        response = api_schema.submitted(submission, state.remaining, self._served.feedback, is_executing)
        if state.opened and state.opened.max_candidates:
            response = response.model_copy(update={"candidates": [candidate.name for candidate in state.candidates]})
        return _submission_json(response, code)

    async def refused(self, _: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        await self._queue.refused(refusal)
        remaining = self._queue.state.remaining
        response = api_schema.RefusedResponse(status=refusal.reason, message=refusal.text, remaining_budget=remaining)
        return _json(response, CODES.get(refusal.reason, 400))


def info(state: RunState, served: ServedTask) -> api_schema.Info:
    task = served.task
    meta = task.env_meta() | {
        "n_env_instances": TRAIN_CASES,
        "obs_space": served.obs_space,
        "action_space": served.action_space,
        "obs_storage": dict.fromkeys(_stored_arrays(served), ARRAYS_FILE),
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
        feedback=served.feedback,
        max_candidates=state.opened.max_candidates if state.opened else None,
    )


def _stored_arrays(served: ServedTask) -> list[str]:
    if served.feedback in (FeedbackLevel.SCORE, FeedbackLevel.SUMMARY):
        return []
    return [name for name, _ in large_arrays(served.obs_space)]


def build_app(queue: SubmissionQueue, served: ServedTask, token: str) -> Starlette:
    """Build the application. All routes are below the token; any other path is 404."""
    handlers = ApiHandlers(queue, served)
    routes = [
        Route("/{token}/info", handlers.info, methods=["GET"]),
        Route("/{token}/task", handlers.task, methods=["GET"]),
        Route("/{token}/submit", handlers.submit, methods=["POST"]),
        Route("/{token}/submissions/{submit_id}", handlers.submission, methods=["GET"]),
        Route("/{token}/openapi.json", _openapi, methods=["GET"]),
        Route("/{token}/finalize", handlers.finalize),
    ]
    on_error: dict[Any, Any] = {Refusal: handlers.refused, HTTPException: _http_error, ClientDisconnect: _gone}
    on_error |= dict.fromkeys((Fault, Exception), handlers.broken)
    app = Starlette(routes=routes, exception_handlers=on_error, middleware=[Middleware(_TokenCheck, token)])
    app.router.redirect_slashes = False  # no second spelling of a path
    return app


class _TokenCheck:
    """Reject requests without the token before routing, so that they do not learn which paths and methods exist."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = scope["path"].lstrip("/").partition("/")[0].encode(errors="replace")
        is_valid = hmac.compare_digest(token, self._token)
        await (self._app if is_valid else _json(api_schema.NotFound(message="Not Found"), 404))(scope, receive, send)


async def _body(request: Request) -> bytes:
    """Read the body of a request, holding at most MAX_BODY bytes."""
    body, declared = b"", int(request.headers.get("content-length") or 0)
    if declared > MAX_BODY:
        raise _too_large()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _too_large()
    return body


def _too_large() -> Refusal:
    return Refusal(Reason.TOO_LARGE, f"a request may have at most {MAX_BODY >> 10} KiB")


async def _openapi(request: Request) -> Response:
    document = api_schema.openapi_document(server=f"/{request.path_params['token']}")
    return Response(json.dumps(document), media_type="application/json")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(api_schema.NotFound(message=error.detail), error.status_code, error.headers)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)


def _submission_json(response: api_schema.Submitted, code: int) -> Response:
    """Return a response whose summary has only the keys of its feedback level."""
    content = response.model_dump(mode="json", by_alias=True)
    if response.summary:
        content["summary"] = response.summary.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return Response(json.dumps(content), code, media_type="application/json")


def _json(response: BaseModel, code: int = 200, headers: Any = None) -> Response:
    return Response(response.model_dump_json(), code, headers, "application/json")
