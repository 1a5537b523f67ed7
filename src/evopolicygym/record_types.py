"""Types of the fields of records. Records may be forged: names of folders and counts are checked when they are read."""

from __future__ import annotations

import sys
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

MAX_DEPTH: Final = 16  # of tables without declared keys
MAX_VALUES: Final = 100_000  # of such a table
LARGEST: Final = 2**63
MAX_RETURN: Final = 1e60  # the variance of a variance needs its fourth power, which must be finite
MAX_AMOUNT: Final = 1e60  # tokens, dollars and counts of usage
MAX_SECONDS: Final = 1e12  # sums of them stay finite


def _bounded(table: dict[str, Any]) -> dict[str, Any]:
    """Check undeclared tables: finite numbers, a plausible depth and number of values."""
    _count_values(table, 0, 0, sys.float_info.max)
    return table


def _addable(table: dict[str, Any]) -> dict[str, Any]:
    """Check tables of amounts, too: those of many runs are added up, and a sum must stay finite."""
    _count_values(table, 0, 0, MAX_AMOUNT)
    return table


def _count_values(value: Any, depth: int, count: int, largest: float) -> int:
    """Return ``count`` with the values in a value added. Raises ValueError beyond a bound."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise ValueError("a number beyond all bounds")
    if isinstance(value, float) and not abs(value) <= largest:
        raise ValueError("a number beyond all bounds")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        count = _count_values(inner, depth + 1, count + 1, largest)
        if count > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
    return count


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
Return = Annotated[float, Field(ge=-MAX_RETURN, le=MAX_RETURN)]
Seconds = Annotated[float, Field(ge=-MAX_SECONDS, le=MAX_SECONDS)]
Moment = Annotated[AwareDatetime, AfterValidator(_convertible)]
Undeclared = Annotated[dict[str, Any], AfterValidator(_bounded)]
Amounts = Annotated[dict[str, Any], AfterValidator(_addable)]


class RecordModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")
