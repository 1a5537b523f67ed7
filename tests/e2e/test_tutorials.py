"""Every command of the tutorials works as printed, in a fresh folder, and prints what the page shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tutorial_runner import COLUMNS, Step, comparable, differing_pictures, missing_lines, read_page, run_step

from conftest import TESTS

TUTORIALS = sorted((TESTS.parent / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_work_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))  # a key of its own
    monkeypatch.delenv("PYTHONPATH")
    work = tmp_path / "work"
    work.mkdir()
    files, steps = read_page(page)
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    assert len(steps) >= 5
    for step in steps:
        code, output = run_step(step, work, os.environ)
        assert code == step.exit_code, f"{step.script}\n{output}"
        assert not missing_lines(step.shown, output.splitlines()), f"{step.script}\n{output}"
    assert not differing_pictures(page, work)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_shown_lines_fit_a_terminal(page):
    assert not [line for step in read_page(page)[1] for line in step.shown if len(line) > COLUMNS]


def test_a_step_that_differs_from_its_page_is_found(tmp_path):
    code, output = run_step(Step("echo one; echo 1.5 s; tput cols; exit 3"), tmp_path, os.environ)
    assert code == 3 and missing_lines(("one", "2.5 s"), output.splitlines()) == []
    assert missing_lines(("1.5 s", "one"), output.splitlines()) == ["one"]
    assert missing_lines(("two",), output.splitlines()) == ["two"]
    interrupted = Step("echo begun; sleep 600", ("begun", "^C"))
    assert run_step(interrupted, tmp_path, os.environ)[0] == interrupted.exit_code == 130
    assert comparable("made on 2026-01-02 with 0.2.0") == comparable("made  on 2025-03-04 with 1.0.0")
