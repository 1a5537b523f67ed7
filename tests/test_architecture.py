"""The shape of the house: arrows point downwards, the root is light, files hold one idea."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym

SOURCE = Path(evopolicygym.__file__).parent
BELOW = {
    "fast": set(),
    "reference": set(),
    "analysis": {"agents", "reference"},
    "report": {"agents", "analysis", "reference"},
    "tasks": {"fast", "reference"},
    "sandbox": set(),
    "execution": {"reference", "sandbox", "tasks"},
    "judge": {"execution", "sandbox", "tasks"},
    "agents": set(),
    "server": {"execution", "judge", "sandbox", "tasks"},
    "runs": {"agents", "analysis", "execution", "judge", "reference", "sandbox", "server", "tasks"},
    "suites": {"agents", "analysis", "execution", "judge", "reference", "runs", "sandbox", "tasks"},
    "cli": {
        "agents",
        "analysis",
        "execution",
        "fast",
        "judge",
        "reference",
        "report",
        "runs",
        "sandbox",
        "server",
        "suites",
        "tasks",
    },
}
SHARED = {"__version__", "config", "errors", "files", "json_schema", "limits", "run_paths", "run_record"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evopolicygym"):
            rest = node.module.split(".")[1:]
            found |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("evopolicygym.")}
    return found


@pytest.mark.parametrize("package", BELOW)
def test_dependencies_point_downwards(package):
    for path in (SOURCE / package).rglob("*.py"):
        assert imports(path) <= BELOW[package] | {package} | SHARED, path


def test_every_package_has_its_arrows():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(BELOW)


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, evopolicygym; print({'numpy', 'gymnasium', 'pydantic', 'typer', 'msgspec'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_ray_is_loaded_only_by_those_who_play_on_it():
    code = "import sys, evopolicygym.cli.run, evopolicygym.suites.scheduler; print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_the_zygote_loads_no_judge_code():
    """It must start with the standard library and numpy alone: whatever it holds, policies inherit."""
    code = "import sys, evopolicygym.execution.worker_entry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True).stdout.split()
    assert "evopolicygym.sandbox.policy.zygote" in loaded
    judges = ("evopolicygym.tasks", "evopolicygym.fast", "gymnasium", "msgspec")
    assert not [name for name in loaded if name.startswith(judges)]
    of_judge = {"execution.worker", "execution.messages", "sandbox.policy.launcher", "sandbox.policy.channel"}
    assert not {f"evopolicygym.{name}" for name in of_judge} & set(loaded)


def test_the_public_names_are_few():
    assert evopolicygym.__all__ == ["__version__", "load_runs"]


def test_no_file_does_too_much():
    long = {str(path): n for path in SOURCE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert not long
