"""TOML in and out: one parser, one strict reader with errors that name the key, and one writer."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file
from evopolicygym.printable import one_line


def to_toml(values: Mapping[str, Any], comment: str) -> str:
    """Write settings as TOML under a comment: plain values first, then the tables."""
    import tomlkit  # only those who write settings wait for it

    return f"# {comment}\n{tomlkit.dumps(_without_empty_tables(values))}"


def _without_empty_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    filled = {
        name: _without_empty_tables(value) if isinstance(value, Mapping) else value for name, value in values.items()
    }
    return {name: value for name, value in filled.items() if value != {}}


MAX_DEPTH: Final = 64  # of tables and lists in each other
LARGEST: Final = 2**63  # TOML requires no more of integers; beyond floats, arithmetic raises OverflowError
WHOLE_NUMBERS: Final = "whole numbers are between -2^63 and 2^63-1"
FINITE_NUMBERS: Final = "inf, nan and numbers beyond 1.8e308 are not allowed"
SHOWN_KEY: Final = 100  # characters of a key in a message
# Possessive, and never begun at an escaped quote: otherwise the search would take the square of a long string.
KEY_PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
DEEP_KEY: Final = re.compile(rf"(?<![\w\\-]){KEY_PART}(?:\.[ \t]*+{KEY_PART}){{{MAX_DEPTH}}}", re.ASCII)
SEE = "`evopolicygym docs agents` has every key and a whole example."


class StrictModel(BaseModel):
    """A table of settings: known keys alone, and numbers that every program can compute with and show. A text such as
    "1000" is read as a number, too, so the bounds of TOML are checked again."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_integer(cls, value: Any) -> Any:
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise ValueError(f"out of range: {WHOLE_NUMBERS}")
        return value


class NumberOutOfRange(ValueError):
    """A number in TOML that programs cannot compute with. The message has its key, but not the number: Python refuses
    to write one of very many digits."""


Shape = TypeVar("Shape", bound=StrictModel)


def parse_toml(text: str, infinite: str = "") -> dict[str, Any]:
    """Parse TOML. Raises ValueError for everything else, and for tables that are nested too deeply: the time to parse a
    key grows with the square of its parts, and a file of settings may come from another person. Raises NumberOutOfRange
    for integers of more than 64 bits (``0x...`` has no limit of digits in Python), and for numbers that are not
    finite, but for ``inf`` in the table ``infinite``."""
    if DEEP_KEY.search(text):
        raise ValueError(f"nested too deeply: a key of more than {MAX_DEPTH} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {error}") from error
    _check_values(values, infinite)
    return values


def _check_values(values: dict[str, Any], infinite: str) -> None:
    layer: list[tuple[str, Any]] = [("", values)]
    for _ in range(MAX_DEPTH):
        layer = [inner for key, value in layer for inner in _inner_values(key, value)]
        for key, value in layer:
            _check_number(key, value, bool(infinite) and key.startswith(f"{infinite}."))
    if any(isinstance(value, dict | list) for _, value in layer):
        raise ValueError(f"nested too deeply: more than {MAX_DEPTH} tables or lists in each other")


def _inner_values(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    """Return the values in a table or a list, with the key of the table or list that each is in."""
    if isinstance(value, dict):
        return ((f"{key[:SHOWN_KEY]}.{name}" if key else name, inner) for name, inner in value.items())
    return ((key, inner) for inner in value) if isinstance(value, list) else ()


def _check_number(key: str, value: Any, may_be_infinite: bool) -> None:
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise NumberOutOfRange(f"{one_line(key[:SHOWN_KEY])} is out of range: {WHOLE_NUMBERS}")
    if isinstance(value, float) and not (math.isfinite(value) or (may_be_infinite and math.isinf(value))):
        raise NumberOutOfRange(f"{one_line(key[:SHOWN_KEY])} is no finite number: {FINITE_NUMBERS}")


def read_toml(path: Path, file_kind: str, see: str = SEE) -> dict[str, Any]:
    """Read a TOML file that a user names. Error messages contain ``file_kind`` and end with ``see``."""
    try:
        return parse_toml(read_text_file(path))
    except OSError as error:
        raise UserError(f"cannot read the {file_kind} {path}: {error.strerror}", see) from error
    except UnicodeDecodeError as error:
        raise UserError(f"the {file_kind} {path} is not text: {error}", see) from error
    except NumberOutOfRange as error:
        raise UserError(f"the {file_kind} {path} is not valid: {error}", see) from error
    except ValueError as error:
        raise UserError(f"the {file_kind} {path} is not TOML: {error}", see) from error


def validate(shape: type[Shape], data: dict[str, Any], subject: str, see: str = SEE) -> Shape:
    """Return the data as a model. Raises UserError, which says that the ``subject`` is not valid, and why."""
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        lines = [_line(shape, problem) for problem in error.errors()]
        raise UserError(f"{subject} is not valid:\n" + "\n".join(f"  {line}" for line in lines), see) from error


def _line(shape: type[StrictModel], problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] != "extra_forbidden":
        return f"{where or 'the file'}: {problem['msg'].removeprefix('Value error, ')}"
    valid_keys = sorted(_model_at(shape, problem["loc"][:-1]).model_fields)
    near = get_close_matches(str(problem["loc"][-1]), valid_keys, n=1, cutoff=0.5)
    return f"{where}: there is no such key; " + (f"did you mean {near[0]}?" if near else f"known are {valid_keys}")


def _model_at(shape: type[StrictModel], path: tuple[Any, ...]) -> type[StrictModel]:
    for step in path:
        if isinstance(step, str) and step in shape.model_fields:
            shape = _model_in(shape.model_fields[step].annotation) or shape
    return shape


def _model_in(annotation: Any) -> type[StrictModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, StrictModel):
        return annotation
    inner = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in inner if model), None)
