"""The public names: typed, documented, light to import, and as stable as their golden text."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from types import FunctionType

import pytest

import evopolicygym
from evopolicygym.cli.main import COMMANDS

TESTS = Path(__file__).parents[1]
GOLDEN = Path(__file__).with_name("signatures.txt")
HEAVY = (
    *("asyncio", "gymnasium", "jinja2", "matplotlib", "msgspec", "numpy", "pandas", "pydantic", "ray", "rich", "scipy"),
    *("starlette", "typer", "uvicorn", "evopolicygym.cli", "evopolicygym.runs", "evopolicygym.judge"),
)
NAMES = sorted(evopolicygym._HOME)
FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(evopolicygym, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(evopolicygym, name))]


@pytest.mark.parametrize(
    "statement", ["import evopolicygym", f"from evopolicygym import {', '.join(evopolicygym.__all__)}"]
)
def test_importing_loads_nothing_heavy(statement):
    code = f"{statement}\nimport sys\nprint(*sorted(set({HEAVY!r}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_all_names_exist_and_dir_shows_them():
    assert {*NAMES, "__version__"} <= set(dir(evopolicygym)) and set(evopolicygym.__all__) <= {*NAMES, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        evopolicygym.nothing  # noqa: B018


def test_every_command_is_a_function():
    """docs/python.md has a table of both: what a command does, a program can do, too."""
    rows = re.findall(
        r"^\| (`.+) \| (`.+) \|$", (TESTS.parent / "docs/python.md").read_text().partition("\n## ")[0], re.M
    )
    commands, functions = (set(re.findall(r"`([\w-]+)", " ".join(cells))) for cells in zip(*rows, strict=True))
    assert commands >= set(COMMANDS) - {"docs"}
    assert functions <= set(FUNCTIONS) and set(FUNCTIONS) - functions == {"load_run", "load_runs"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_can_be_imported(name):
    returned = str(inspect.signature(getattr(evopolicygym, name)).return_annotation)
    assert set(re.findall(r"\b[A-Z]\w+", returned)) - {"AbstractContextManager", "Iterator", "None"} <= set(CLASSES)


def test_signatures_are_stable():
    """To change the public API on purpose: `python tests/api/test_names.py > tests/api/signatures.txt`."""
    assert signatures() == GOLDEN.read_text()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_documented(name):
    """A docstring has each parameter by name, the errors, and an example that runs."""
    function = getattr(evopolicygym, name)
    text = inspect.getdoc(function)
    named = text.partition("Args:")[2]
    assert [parameter for parameter in inspect.signature(function).parameters if parameter not in named] == []
    assert ("Raises:" in text or not inspect.signature(function).parameters) and ">>>" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_runs(name, monkeypatch, tmp_path):
    monkeypatch.chdir(TESTS.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    function = getattr(evopolicygym, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    output: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert tried and not failed, "".join(output)


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_and_public_member_is_documented(name):
    cls = getattr(evopolicygym, name)
    assert cls.__doc__ and not cls.__doc__.startswith(f"{name}(")
    if cls.__module__ == "evopolicygym.tasks.task" or issubclass(cls, Exception):
        return
    members = [member for member in _members(cls) if not inspect.getdoc(getattr(cls, member))]
    assert members == []


def signatures() -> str:
    lines = []
    for name in NAMES:
        value = getattr(evopolicygym, name)
        if inspect.isfunction(value):
            lines.append(f"{name}{_spread(inspect.signature(value))}")
        elif inspect.isclass(value):
            lines += [f"class {name}", *(f"  {line}" for line in _contents(value))]
    return "\n".join(lines) + "\n"


def _contents(cls: type) -> list[str]:
    if dataclasses.is_dataclass(cls):
        fields = [f"{field.name}: {field.type}" for field in dataclasses.fields(cls)]
    elif hasattr(cls, "model_fields"):
        fields = [f"{name}: {kind}" for name, kind in cls.__annotations__.items()]
    else:
        fields = [f"__init__{inspect.signature(cls.__init__)}"] if "__init__" in vars(cls) else []
    return [*fields, *(_member(cls, name) for name in _members(cls))]


def _members(cls: type) -> list[str]:
    """Return the members of the class itself that are not fields: properties and methods."""
    kinds = (property, cached_property, FunctionType)
    return [name for name, value in vars(cls).items() if not name.startswith("_") and isinstance(value, kinds)]


def _member(cls: type, name: str) -> str:
    value = vars(cls)[name]
    if inspect.isfunction(value):
        return f"{name}{inspect.signature(value)}"
    getter = value.fget if isinstance(value, property) else value.func
    return f"{name} -> {inspect.signature(getter).return_annotation}"


def _spread(signature: inspect.Signature) -> str:
    """One parameter to a line, as a person would compare them."""
    text = str(signature)
    if len(text) <= 100:
        return text
    parameters = [str(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return "(\n    " + ",\n    ".join(parameters) + f"\n) -> {signature.return_annotation}"


if __name__ == "__main__":
    print(signatures(), end="")
