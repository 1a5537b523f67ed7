"""Client of a run's HTTP API for built-in agents: standard library only, and patient with a server that restarts.

The idempotency key of a submission consists of the agent's name and the submission's number. An agent that is restarted
repeats its submissions from the beginning, gets the same results and is charged nothing twice: it needs no state.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

PATIENCE_S: Final = 600.0  # how long to wait for a server that does not answer
REQUEST_S: Final = 3600.0  # how long to wait for the episodes of one submission before asking again
RUNNING: Final = ("busy", "running")
MAX_FAULTS: Final = 4  # the judge closes a run after three


class RunOver(Exception):
    """The run takes no more submissions."""


class ServerUnreachable(Exception):
    """The server does not answer."""


@dataclass(frozen=True)
class SubmitResult:
    """The result of one submission. ``returns`` is empty if the policy did not load. At feedback level score, each of
    them is the mean, since nothing else is known."""

    submit_id: str
    status: str
    returns: tuple[float, ...]
    remaining: int


class ApiClient:
    """The API of the run in whose workspace this process runs. ``name`` identifies the agent in keys."""

    def __init__(self, name: str) -> None:
        self.workspace = Path(os.environ.get("EVOPOLICYGYM_WORKSPACE", ".")).resolve()
        self.system = Path(os.environ.get("EVOPOLICYGYM_SYSTEM", self.workspace / "system"))
        self.feedback = Path(os.environ.get("EVOPOLICYGYM_FEEDBACK", self.workspace / "feedback"))
        self._name, self._count = name, 0

    def info(self) -> dict[str, Any]:
        """Return budget, limits and spaces of the run."""
        return self._call("GET", "/info", None, {})[1]

    def submit(self, cases: list[int]) -> SubmitResult:
        """Submit the content of ``system`` for these cases and wait for the result. Raises RunOver."""
        self._count += 1
        for attempt in range(MAX_FAULTS):
            answer = self._wait_for(f"{self._name}-{self._count:04}-{attempt}", cases)
            if answer["status"] != "fault":
                return _submit_result(answer)
        raise RunOver(answer["message"])

    def _wait_for(self, key: str, cases: list[int]) -> dict[str, Any]:
        """Post a submission until it has ended; the key makes repeated posts mean the same submission."""
        body = json.dumps({"env_instances": cases}).encode()
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        while True:
            code, answer = self._call("POST", "/submit", body, headers)
            status = answer.get("status")
            if status not in RUNNING:
                break
            time.sleep(0.2)
        if code == 200 or status == "fault":
            return answer
        raise RunOver(f"{status}: {answer.get('message', code)}")

    def _call(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Repeat a request until the server answers. Raises ServerUnreachable."""
        began = time.monotonic()
        while True:
            try:
                return self._request(method, path, body, headers)
            except (OSError, HTTPException, ValueError) as error:
                if time.monotonic() - began > PATIENCE_S:
                    raise ServerUnreachable(f"the server does not answer: {error}") from error
            time.sleep(0.3)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """Send one request. An unknown address (404: the server has moved) and a judge that failed before it accepted
        the submission (nothing was charged) raise, so that the request is repeated."""
        request = urllib.request.Request(self._api() + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            answer = json.loads(error.read())
            if error.code == 404 or (error.code == 503 and not answer.get("submit_id")):
                raise
            return error.code, answer

    def _api(self) -> str:
        """Return the address from door.json, which is rewritten when the server moves; else from the variable."""
        try:
            return str(json.loads((self.workspace / "door.json").read_text())["api"])
        except (OSError, ValueError, KeyError):
            return os.environ.get("EVOPOLICYGYM_API", "")


def _submit_result(answer: dict[str, Any]) -> SubmitResult:
    summary = answer["summary"]
    returns = summary.get("returns") or [summary["mean_return"]] * summary["n_episodes"]
    is_ok = answer["status"] == "ok"
    return SubmitResult(
        answer["submit_id"], answer["status"], tuple(returns) if is_ok else (), summary["remaining_budget"]
    )
