"""Settings as TOML, written for people: plain values first, then the tables."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(values: Mapping[str, Any], comment: str) -> str:
    return "\n".join([f"# {comment}", *_table(values, "")]) + "\n"


def _table(values: Mapping[str, Any], path: str) -> Iterator[str]:
    """TOML writes numbers, booleans, lists and strings as JSON does. A table without values of its own is not named."""
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    if path and plain:
        yield from ("", f"[{path}]")
    yield from (f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}" for name, value in plain.items())
    for name, table in tables.items():
        yield from _table(table, f"{path}.{_key(name)}" if path else _key(name))


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


SEE = "`evopolicygym docs agents` has every key and a whole example."


class StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Shape = TypeVar("Shape", bound=StrictModel)


def read_toml(path: Path, what: str, see: str = SEE) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text_file(path))
    except OSError as error:
        raise UserError(f"cannot read the {what} {path}: {error.strerror}", see) from error
    except UnicodeDecodeError as error:
        raise UserError(f"the {what} {path} is not text: {error}", see) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"the {what} {path} is not TOML: {error}", see) from error


def validate(shape: type[Shape], data: dict[str, Any], what: str, see: str = SEE) -> Shape:
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        lines = [_line(shape, problem) for problem in error.errors()]
        raise UserError(f"{what} is not valid:\n" + "\n".join(f"  {line}" for line in lines), see) from error


def _line(shape: type[StrictModel], problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] != "extra_forbidden":
        return f"{where or 'the file'}: {problem['msg'].removeprefix('Value error, ')}"
    known = sorted(_model_at(shape, problem["loc"][:-1]).model_fields)
    near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
    return f"{where}: there is no such key; " + (f"did you mean {near[0]}?" if near else f"known are {known}")


def _model_at(shape: type[StrictModel], path: tuple[Any, ...]) -> type[StrictModel]:
    for step in path:
        if isinstance(step, str) and step in shape.model_fields:
            shape = _model_in(shape.model_fields[step].annotation) or shape
    return shape


def _model_in(annotation: Any) -> type[StrictModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, StrictModel):
        return annotation
    inner = (_model_in(argument) for argument in get_args(annotation))
    return next((found for found in inner if found), None)
