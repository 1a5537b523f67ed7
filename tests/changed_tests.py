"""Print the test files that `make check` runs: those that changed, and those that import a module that changed.

Changes are those since the merge base with BASE, committed or not. BASE is `main` by default, or `origin/main` where
there is no such branch.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLOW_FOLDERS = ("attacks", "e2e", "fuzz", "golden", "oracles")  # whole runs and gauntlets: `make test` runs them


def main() -> None:
    changed = changed_files()
    modules = {module_of(path) for path in changed if path.suffix == ".py"}
    tests = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if not is_slow(path))
    chosen = [path for path in tests if path.relative_to(ROOT) in changed or imported_by(path) & modules]
    print(*(str(path.relative_to(ROOT)) for path in [ROOT / "tests" / "test_architecture.py", *chosen]))


def changed_files() -> set[Path]:
    start = _git("merge-base", "HEAD", base_commit()) or ["HEAD"]
    return {Path(name) for name in _git("diff", "--name-only", start[0]) + _git("ls-files", "-o", "--exclude-standard")}


def base_commit() -> str:
    """Return the commit that BASE names; exit with a message if there is none."""
    base = os.environ.get("BASE")
    for name in [base] if base else ["main", "origin/main"]:
        if commit := _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return commit[0]
    problem = f"BASE={base} is no commit" if base else "there is neither main nor origin/main"
    sys.exit(f"{problem}: name the commit to compare with, such as `make check BASE=HEAD~1`")


def imported_by(path: Path) -> set[str]:
    """Return the names of all modules that a test may mean: `from a import b` may import the module a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def module_of(path: Path) -> str:
    """Return the name by which tests import a file below src/ or tests/."""
    return ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")


def is_slow(path: Path) -> bool:
    return path.relative_to(ROOT / "tests").parts[0] in SLOW_FOLDERS


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


if __name__ == "__main__":
    main()
