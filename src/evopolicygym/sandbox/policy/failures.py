"""How a policy can fail: a closed list, separate from faults of the judge."""

from __future__ import annotations

from enum import StrEnum


class ErrorKind(StrEnum):
    """How an episode, or the load of a policy, can fail: a closed list."""

    MISSING_POLICY = "missing_policy"
    DENIED_IMPORT = "denied_import"
    IMPORT_ERROR = "import_error"
    INIT_ERROR = "init_error"
    INIT_TIMEOUT = "init_timeout"
    RESET_ERROR = "reset_error"
    ACT_ERROR = "act_error"
    INVALID_ACTION = "invalid_action"
    TIMEOUT = "timeout"
    OOM = "oom"
    CRASH = "crash"
    SIMULATOR_ERROR = "simulator_error"


class PolicyFailure(Exception):
    """A failure of the policy, with a text for its author."""

    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text
