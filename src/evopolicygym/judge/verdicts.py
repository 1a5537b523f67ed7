"""How a submission can end, and why a request can be refused: two closed lists."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """``ok``, or how the first load failed. ``rollout_timeout``: the whole submission took too long."""

    OK = "ok"
    MISSING_POLICY = "missing_policy"
    DENIED_IMPORT = "denied_import"
    IMPORT_ERROR = "import_error"
    INIT_ERROR = "init_error"
    INIT_TIMEOUT = "init_timeout"
    OOM = "oom"
    CRASH = "crash"
    ROLLOUT_TIMEOUT = "rollout_timeout"


class Reason(StrEnum):
    """Why a request is refused. None of them costs anything."""

    BUDGET_INVALID = "budget_invalid"
    INVALID_ENV_INSTANCE = "invalid_env_instance"
    SNAPSHOT_INVALID = "snapshot_invalid"
    BUSY = "busy"
    RUN_CLOSED = "run_closed"
    KEY_INVALID = "key_invalid"
    KEY_REUSED = "key_reused"
    TOO_LARGE = "too_large"


class Refusal(Exception):
    """A request that changes nothing, and what to do about it."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason, self.text = reason, text
