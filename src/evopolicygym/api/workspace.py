"""The workspace of a run, and a way to submit, for a Python function that plays the agent.

It talks to the judge over HTTP, as every agent does; it runs in a process of its own (`api/python_agent.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

BUSY_S: Final = 0.2  # between two attempts while another submission is running
REQUEST_S: Final = 3600.0  # for the episodes of one submission, before the same request is sent again
FAULTS: Final = 4  # attempts at a submission that the judge fails and refunds: it closes the run after three


class RunClosed(Exception):
    """The run takes no more submissions: its budget is spent, or it was closed. A function need not catch it: `run`
    does not count it as a failure."""


class SubmissionRefused(Exception):
    """The judge refused a submission, free of charge. ``status`` is the reason in one word, such as
    ``invalid_env_instance`` or ``budget_invalid``; ``remaining`` the episodes that are left."""

    def __init__(self, status: str, message: str, remaining: int | None) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message, self.remaining = status, message, remaining


@dataclass(frozen=True)
class Feedback:
    """The result of one submission. ``status`` is ``ok``, or why the policy did not load; then ``returns`` is empty and
    ``mean`` None. At feedback level ``score``, ``returns`` and ``lengths`` are empty as well. ``remaining`` are the
    episodes that are left of the budget. ``folder`` holds the details, ``summary`` the content of its summary.json."""

    submit_id: str
    status: str
    cases: tuple[int, ...]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    mean: float | None
    remaining: int
    folder: Path
    summary: Mapping[str, Any] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the policy loaded and was played."""
        return self.status == "ok"


@dataclass(frozen=True)
class Workspace:
    """The workspace of a run, as the function that plays the agent gets it.

    ``path`` is the workspace's folder, which is also the working directory. ``budget`` is the number of training
    episodes in all, ``seed`` the seed that `run` was given. ``api`` is the address of the judge's HTTP API."""

    path: Path
    budget: int
    seed: int
    api: str = field(repr=False)

    @property
    def system(self) -> Path:
        """The folder that is submitted: everything in it belongs to the policy."""
        return self.path / "system"

    @property
    def policy(self) -> Path:
        """The file ``system/policy.py``. At the start of the run it holds a policy that works."""
        return self.system / "policy.py"

    @property
    def remaining(self) -> int:
        """The training episodes that are left; 0 once the run is closed."""
        try:
            state = self.info()["state"]
        except RunClosed:
            return 0
        return 0 if state["is_finalized"] else int(state["remaining_budget"])

    @property
    def task(self) -> str:
        """The task text that agents read."""
        return _fetch(f"{self.api}/task")[1]

    def info(self) -> dict[str, Any]:
        """Return what the judge says of the run and the task: budget, limits, spaces (docs/protocol.md)."""
        code, text = _fetch(f"{self.api}/info")
        if code != 200:
            raise RunClosed(text)
        info: dict[str, Any] = json.loads(text)
        return info

    def submit(self, cases: str | Sequence[int]) -> Feedback:
        """Submit ``system/`` for training episodes, wait, and return what came back.

        Args:
            cases: Train cases, as a list or as ``"0-7,12"``. Each costs one episode of the budget.

        Raises:
            SubmissionRefused: The request was refused; nothing was charged.
            RunClosed: The run takes no more submissions.
        """
        for _ in range(FAULTS):
            answer = self._answer(token_hex(16), cases if isinstance(cases, str) else list(cases))
            if answer["status"] != "fault":  # a fault of the judge is refunded: submit again
                return self._feedback(answer)
        raise RunClosed(answer["message"])

    def _answer(self, key: str, cases: str | list[int]) -> dict[str, Any]:
        """Send the same request until it is answered. The key makes sure that it is charged once."""
        body = json.dumps({"env_instances": cases}).encode()
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        while True:
            try:
                code, text = _fetch(f"{self.api}/submit", body, headers)
            except TimeoutError:
                continue
            answer: dict[str, Any] = json.loads(text)
            status = answer.get("status", "")
            if code == 200 or status == "fault":
                return answer
            if status == "run_closed":
                raise RunClosed(answer.get("message", "the run is closed"))
            if status not in ("busy", "running"):
                raise SubmissionRefused(status, answer.get("message", text), answer.get("remaining_budget"))
            time.sleep(BUSY_S)

    def _feedback(self, answer: Mapping[str, Any]) -> Feedback:
        summary = answer["summary"]
        return Feedback(
            submit_id=answer["submit_id"],
            status=answer["status"],
            cases=tuple(summary["env_instances"]),
            returns=tuple(summary.get("returns", ())),
            lengths=tuple(summary.get("lengths", ())),
            mean=summary["mean_return"],
            remaining=summary["remaining_budget"],
            folder=self.path / summary["feedback"],
            summary=summary,
        )


def _fetch(url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Return status and body of a GET, or of a POST of ``body``. Raises RunClosed where nothing answers: the server
    ends with the run."""
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, body, dict(headers or {}))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the judge is on this machine
    try:
        with opener.open(request, timeout=REQUEST_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (ConnectionError, urllib.error.URLError) as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):
            raise TimeoutError from error
        raise RunClosed("the judge does not answer any more") from error
