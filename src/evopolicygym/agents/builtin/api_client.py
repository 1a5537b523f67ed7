"""The api of a run, for agents that ship: asked with the standard library alone, patient with a server that restarts.

Every submission has a key made of the agent's name and its number. Whoever starts again from the beginning and asks for
the same submissions gets the same answers, and nothing is charged twice: an agent needs no memory of its own.
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

PATIENCE_S: Final = 600.0  # how long a server that does not answer is waited for
REQUEST_S: Final = 3600.0  # how long the episodes of one submission may take before we ask again
RUNNING: Final = ("busy", "running")
MAX_FAULTS: Final = 4  # the judge closes a run after three


class RunOver(Exception):
    """The run takes no more submissions, and why."""


class ServerUnreachable(Exception):
    """Nobody answers at the api."""


@dataclass(frozen=True)
class SubmitResult:
    """How one submission ended. ``returns`` is empty where the policy did not load."""

    submit_id: str
    status: str
    returns: tuple[float, ...]
    remaining: int


class ApiClient:
    def __init__(self, name: str) -> None:
        self.workspace = Path(os.environ.get("EVOPOLICYGYM_WORKSPACE", ".")).resolve()
        self.system = Path(os.environ.get("EVOPOLICYGYM_SYSTEM", self.workspace / "system"))
        self.feedback = Path(os.environ.get("EVOPOLICYGYM_FEEDBACK", self.workspace / "feedback"))
        self._name, self._count = name, 0

    def info(self) -> dict[str, Any]:
        return self._call("GET", "/info", None, {})[1]

    def submit(self, cases: list[int]) -> SubmitResult:
        """What is in ``system`` now, on these cases. Raises RunOver."""
        self._count += 1
        for attempt in range(MAX_FAULTS):
            answer = self._ended(f"{self._name}-{self._count:04}-{attempt}", cases)
            if answer["status"] != "fault":
                return _reply(answer)
        raise RunOver(answer["message"])

    def _ended(self, key: str, cases: list[int]) -> dict[str, Any]:
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
        began = time.monotonic()
        while True:
            try:
                return self._ask(method, path, body, headers)
            except (OSError, HTTPException, ValueError) as error:
                if time.monotonic() - began > PATIENCE_S:
                    raise ServerUnreachable(f"the server does not answer: {error}") from error
            time.sleep(0.3)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """An address that is not known is that of a server that has moved, and a judge that failed before it took the
        submission charged nothing: neither is an answer."""
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
        """The file is rewritten when the server comes back at another address; the variable is not."""
        try:
            return str(json.loads((self.workspace / "door.json").read_text())["api"])
        except (OSError, ValueError, KeyError):
            return os.environ.get("EVOPOLICYGYM_API", "")


def _reply(answer: dict[str, Any]) -> SubmitResult:
    returns = tuple(answer["summary"]["returns"]) if answer["status"] == "ok" else ()
    return SubmitResult(answer["submit_id"], answer["status"], returns, answer["summary"]["remaining_budget"])
