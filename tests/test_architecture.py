"""The structure of the package: import direction, unique class names, light imports, sizes of files and functions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import evopolicygym

SOURCE = Path(evopolicygym.__file__).parent
# For each package, the packages that it may import.
MAY_IMPORT = {
    "fast": set(),
    "reference": set(),
    "analysis": {"agents", "gateway", "reference", "sandbox"},
    "report": {"agents", "analysis", "gateway", "reference"},
    "tasks": {"fast", "reference"},
    "sandbox": set(),
    "execution": {"fast", "reference", "sandbox", "tasks"},
    "judge": {"execution", "sandbox", "tasks"},
    "agents": set(),
    "gateway": {"agents"},
    "baselines": {"agents", "execution", "reference", "sandbox", "tasks"},
    "server": {"execution", "judge", "sandbox", "tasks"},
    "runs": {"agents", "analysis", "execution", "gateway", "judge", "reference", "sandbox", "server", "tasks"},
    "suites": {"agents", "analysis", "execution", "gateway", "judge", "reference", "runs", "sandbox", "tasks"},
    "api": {
        "agents",
        "analysis",
        "baselines",
        "execution",
        "gateway",
        "judge",
        "reference",
        "report",
        "runs",
        "sandbox",
        "server",
        "suites",
        "tasks",
    },
    "cli": {
        "agents",
        "analysis",
        "api",
        "baselines",
        "execution",
        "gateway",
        "judge",
        "reference",
        "runs",
        "sandbox",
        "suites",
        "tasks",
    },
}
# Root modules that every package may import.
SHARED = {
    "__version__",
    "config",
    "errors",
    "files",
    "json_schema",
    "limits",
    "printable",
    "record_checks",
    "record_types",
    "run_paths",
    "run_progress",
    "run_record",
}


def imports(path: Path) -> set[str]:
    """Return the packages and root modules of evopolicygym that a file imports, at any depth of its code."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evopolicygym"):
            rest = node.module.split(".")[1:]
            names |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("evopolicygym.")}
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_is_below_them(package):
    for path in (SOURCE / package).rglob("*.py"):
        assert imports(path) <= MAY_IMPORT[package] | {package} | SHARED, path


def test_the_documentation_lists_packages_in_the_order_of_imports():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    table = page[page.index("## Packages") : page.index("## Where to add things")]
    listed = re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(MAY_IMPORT)
    for number, package in enumerate(listed):
        assert MAY_IMPORT[package] <= set(listed[:number]), package


def test_toml_is_parsed_in_one_module():
    """Its bounds and its errors are the same for every file that a user may give."""
    assert [path.name for path in SOURCE.rglob("*.py") if "tomllib" in path.read_text()] == ["config.py"]


def test_every_package_is_listed():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(MAY_IMPORT)


# Sources that are submitted as policies: each has a class `Policy`.
SUBMITTED = ("agents/builtin/policies/", "execution/probe/")


def test_public_class_names_are_unique():
    """One name, one meaning: a reader who finds a class by its name finds the right one."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.parse(path.read_text()).body:
            is_submitted = name.startswith(SUBMITTED) and getattr(node, "name", "") == "Policy"
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_submitted:
                places.setdefault(node.name, []).append(name)
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, evopolicygym; print({'numpy', 'gymnasium', 'pydantic', 'typer', 'msgspec'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_ray_is_imported_only_when_it_is_used():
    """It is an optional dependency, and importing it takes seconds."""
    code = "import sys, evopolicygym.cli.run, evopolicygym.suites.scheduler; print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_the_zygote_loads_no_judge_code():
    """Policies are forked from it and inherit its memory: it may hold the standard library and numpy alone."""
    code = "import sys, evopolicygym.execution.worker_entry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True).stdout.split()
    assert "evopolicygym.sandbox.policy.zygote" in loaded
    judge_modules = ("evopolicygym.tasks", "evopolicygym.fast", "gymnasium", "msgspec")
    assert not [name for name in loaded if name.startswith(judge_modules)]
    names = ("execution.worker", "execution.messages", "sandbox.policy.zygote_client", "sandbox.policy.policy_process")
    of_judge = {f"evopolicygym.{name}" for name in names}
    assert all(map(find_spec, of_judge)) and not of_judge & set(loaded)


def test_no_file_is_longer_than_400_lines():
    long = {str(path): n for path in SOURCE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert not long


def test_no_function_is_longer_than_85_lines():
    """Without its signature, where each option of a command is a line or two, and without its documentation."""
    functions = (
        (path, node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lines = {
        f"{path}:{node.name}": (node.end_lineno or 0) - (node.body[0].end_lineno or 0)
        if ast.get_docstring(node) is not None
        else (node.end_lineno or 0) - node.body[0].lineno + 1
        for path, node in functions
    }
    assert not {name: length for name, length in lines.items() if length > 85}


REPOSITORY = Path(__file__).parents[1]
# A path, and behind a colon the name of a function or class in it: `judge/submission.py:accept`.
NAMED = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w-]+\.(?:py|toml|md)|(?:[\w-]+/)+(?=[`\s]))(?::(\w+))?")
IN_A_RUN = {"submit.py", "policy.py", "system/policy.py", "system/", "feedback/", "config.toml"}


def test_what_the_architecture_page_names_exists():
    places = NAMED.findall((REPOSITORY / "docs" / "architecture.md").read_text())
    assert len(places) > 100
    missing = []
    for path, name in places:
        existing = [root / path for root in (SOURCE, REPOSITORY, REPOSITORY / "docs") if (root / path).exists()]
        if not existing and path not in IN_A_RUN:
            missing.append(path)
        elif name and name not in defined_names(existing[0]):
            missing.append(f"{path}:{name}")
    assert not missing


def defined_names(path: Path) -> set[str]:
    """Return the names of all functions and classes in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}
