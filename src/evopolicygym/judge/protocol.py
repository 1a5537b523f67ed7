"""The vocabulary of the agent's API: the body of a submit request, verdicts, and reasons for refusing a request.

Requests are checked before anything is touched: until the charge, a refusal is free."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.tasks.splits import SIZES, Split, parse_indices


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
    """Reasons to refuse a request. A refusal is free."""

    BUDGET_INVALID = "budget_invalid"
    INVALID_ENV_INSTANCE = "invalid_env_instance"
    SNAPSHOT_INVALID = "snapshot_invalid"
    BUSY = "busy"
    RUN_CLOSED = "run_closed"
    KEY_INVALID = "key_invalid"
    KEY_REUSED = "key_reused"
    TOO_LARGE = "too_large"


class Refusal(Exception):
    """A refused request: the reason, and a text that says what to do."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason, self.text = reason, text


TRAIN_CASES: Final = SIZES[Split.TRAIN]
LAST: Final = TRAIN_CASES - 1
MIN_EPISODES: Final = 1
MAX_EPISODES: Final = 128
LONGEST_TEXT: Final = 4096
KEY: Final = re.compile("^[!-~]{1,200}$")

Index = Annotated[StrictInt, Field(ge=0, le=LAST)]
Ranges = Annotated[
    str,
    StringConstraints(
        strict=True, max_length=LONGEST_TEXT, pattern=r"^ *[0-9]+ *(- *[0-9]+ *)?(, *[0-9]+ *(- *[0-9]+ *)?)*$"
    ),
]


class SubmitBody(BaseModel):
    """The body of ``POST /submit``."""

    model_config = ConfigDict(title="Submit")

    env_instances: Annotated[list[Index], Field(min_length=1)] | Ranges = Field(
        description=f"Train cases, 0 to {LAST}, as a list or as text such as '0-3,7'. Order and repeats are kept; "
        "each costs one episode of the budget.",
        examples=[[0, 1, 2], "0-3,7"],
    )
    wait: StrictBool = Field(True, description="false: answer 202 at once; then poll GET /submissions/{submit_id}.")


@dataclass(frozen=True)
class SubmitRequest:
    """A valid request. The key makes repeating it safe."""

    cases: tuple[int, ...]
    key: str
    wait: bool = True


def read_request(body: bytes, key: str | None) -> SubmitRequest:
    """Parse the body of a submit request. A request without a key gets a random one. Raises Refusal."""
    try:
        parsed = SubmitBody.model_validate_json(body)
    except ValidationError as error:
        raise Refusal(Reason.INVALID_ENV_INSTANCE, _explain(error)) from error
    if key is not None and not KEY.fullmatch(key):
        raise Refusal(Reason.KEY_INVALID, "an Idempotency-Key has 1 to 200 printable characters, and no spaces")
    return SubmitRequest(_expand(parsed.env_instances), key or f"none-{secrets.token_hex(16)}", parsed.wait)


def _expand(instances: list[int] | str) -> tuple[int, ...]:
    """Expand ranges. Cases are counted first, because a short text can name very many."""
    if isinstance(instances, str):
        try:
            instances = parse_indices(instances, TRAIN_CASES, most=MAX_EPISODES)
        except UserError as error:
            raise Refusal(Reason.INVALID_ENV_INSTANCE, str(error)) from error
        except OverflowError as error:
            raise Refusal(Reason.BUDGET_INVALID, f"at most {MAX_EPISODES} episodes can be asked for at once") from error
    if not MIN_EPISODES <= len(instances) <= MAX_EPISODES:
        raise Refusal(Reason.BUDGET_INVALID, f"{len(instances)} episodes: ask for {MIN_EPISODES} to {MAX_EPISODES}")
    return tuple(instances)


def _explain(error: ValidationError) -> str:
    """Return one line for the first mistake; pydantic lists one for each branch of a union."""
    for mistake in error.errors(include_url=False, include_context=False):
        if mistake["type"] == "string_pattern_mismatch":
            return f"cannot read {mistake['input']!r:.60}: write numbers and ranges, such as 0,1 or 0-7 or 0-3,7"
        if mistake["type"] in ("greater_than_equal", "less_than_equal"):
            return f"case {mistake['input']!r:.60} is out of range: there are cases 0 to {LAST}"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("list[", "constrained", "function"))
    )
    return (
        f"{where + ': ' if where else ''}{first['msg']}. Post JSON such as "
        f'{{"env_instances": [0, 1, 2]}} or {{"env_instances": "0-3,7"}} with cases from 0 to {LAST}'
    )
