"""TOML in and out: one parser, one strict reader with errors that name the key, and one writer."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file


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
# Possessive, and never begun at an escaped quote: otherwise the search would take the square of a long string.
KEY_PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
DEEP_KEY: Final = re.compile(rf"(?<![\w\\-]){KEY_PART}(?:\.[ \t]*+{KEY_PART}){{{MAX_DEPTH}}}", re.ASCII)
SEE = "`evopolicygym docs agents` has every key and a whole example."


class StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Shape = TypeVar("Shape", bound=StrictModel)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError for everything else, and for tables that are nested too deeply: the time to parse a
    key grows with the square of its parts, and a file of settings may come from another person."""
    if DEEP_KEY.search(text):
        raise ValueError(f"nested too deeply: a key of more than {MAX_DEPTH} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {error}") from error
    _check_depth(values)
    return values


def _check_depth(values: dict[str, Any]) -> None:
    layer: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        tables = [each.values() if isinstance(each, dict) else each for each in layer if isinstance(each, dict | list)]
        layer = [inner for table in tables for inner in table]
    if any(isinstance(each, dict | list) for each in layer):
        raise ValueError(f"nested too deeply: more than {MAX_DEPTH} tables or lists in each other")


def read_toml(path: Path, file_kind: str, see: str = SEE) -> dict[str, Any]:
    """Read a TOML file that a user names. Error messages contain ``file_kind`` and end with ``see``."""
    try:
        return parse_toml(read_text_file(path))
    except OSError as error:
        raise UserError(f"cannot read the {file_kind} {path}: {error.strerror}", see) from error
    except UnicodeDecodeError as error:
        raise UserError(f"the {file_kind} {path} is not text: {error}", see) from error
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
