"""Types of the fields of records. Records may be forged: names of folders and counts are checked when they are read."""

from __future__ import annotations

import math
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

MAX_DEPTH: Final = 16  # of tables without declared keys
LARGEST: Final = 2**63
MAX_RETURN: Final = 1e60  # the variance of a variance needs its fourth power, which must be finite
MAX_SECONDS: Final = 1e12  # sums of them stay finite


def _bounded(value: Any, depth: int = 0) -> Any:
    """Check undeclared tables: numbers within bounds, and a plausible depth."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    is_bounded = not isinstance(value, int) or -LARGEST <= value < LARGEST
    if not is_bounded or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("a number beyond all bounds")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _bounded(inner, depth + 1)
    return value


def _convertible(moment: datetime) -> datetime:
    """Check that a time can be converted to any time zone: at the ends of the calendar that is an error."""
    if not MINYEAR < moment.year < MAXYEAR:
        raise ValueError(f"the year {moment.year} is none that a run can be of")
    return moment


Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ShortText = Annotated[str, StringConstraints(max_length=200)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Whole = Annotated[int, Field(ge=-LARGEST, lt=LARGEST)]
SubmissionNumber = Annotated[int, Field(ge=1, le=1_000_000)]
Cases = Annotated[int, Field(ge=0, le=100_000)]
Seconds = Annotated[float, Field(ge=-MAX_SECONDS, le=MAX_SECONDS)]
Moment = Annotated[AwareDatetime, AfterValidator(_convertible)]
Undeclared = Annotated[dict[str, Any], AfterValidator(_bounded)]


class RecordModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")
