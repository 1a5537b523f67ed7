"""The files around the package: every dependency is locked, and scripts name files that exist."""

from __future__ import annotations

import re
import tomllib
from itertools import chain

from conftest import TESTS

ROOT = TESTS.parent


def test_every_dependency_is_locked_with_a_hash():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # torch is too large for the environment of the tests: `make prove-rl` installs it into one of its own.
    wanted = [*project["dependencies"], *chain(*(extras[name] for name in extras if name != "rl"))]
    locked = dict(re.findall(r"^([\w.-]+)==(.*(?:\n .*)*)", (ROOT / "requirements.lock").read_text(), re.M))
    names = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in wanted}
    assert len(names) > 20 and not names - set(locked)
    assert not [name for name, text in locked.items() if "--hash=sha256:" not in text]


def test_exact_versions_are_the_locked_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    exact = [requirement for requirement in project["dependencies"] if "==" in requirement]
    assert len(exact) > 5 and not [pin for pin in exact if not re.search(rf"^{re.escape(pin)}[ ;\\]", lock, re.M)]


def test_set_up_installs_locked_versions_alone():
    """Resolving dependencies once more finds releases that came after the lock, and old versions of pip then refuse."""
    installs = [
        line
        for name in ("Makefile", "Dockerfile")
        for line in (ROOT / name).read_text().splitlines()
        if "requirements.lock" in line and "install" in line
    ]
    assert len(installs) == 4 and all("--require-hashes --no-deps" in line for line in installs)


def test_tests_that_scripts_name_exist():
    """Renamed test files would be left out of them without a word, or fail only in CI."""
    scripts = ("Makefile", ".ci/run", "tests/simulate_other_machines", "CONTRIBUTING.md")
    named = {name for file in scripts for name in re.findall(r"\btests/[\w/]+(?:\.py)?", (ROOT / file).read_text())}
    assert len(named) > 10 and not [name for name in named if not (ROOT / name).exists()]


def test_what_the_wheel_needs_is_copied_into_the_image():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    available = {name for line in copied for name in line.split()}
    assert set(build["force-include"]) <= available
