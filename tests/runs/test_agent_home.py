"""The home of an agent: complete although the process that fills it was killed, and without logins after the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from evopolicygym.agents import definitions
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.agent.setup import delete_credentials, make_agent_home
from process_helpers import assert_killed_in, kill_self


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}


def _copies(count: int) -> Callable[..., None]:
    """Replace the last step of copying a file or folder; kill this process after so many of them."""
    copy, countdown = shutil.copystat, iter(range(count - 1, -1, -1))

    def copy_or_die(*arguments: object, **options: object) -> None:
        copy(*arguments, **options)
        if next(countdown) == 0:
            kill_self()

    return copy_or_die


@pytest.mark.parametrize("after", [1, 5, 10, 20])
def test_shipped_programs_are_complete_after_a_kill(tmp_path, monkeypatch, after):
    paths, tuner = RunPaths(tmp_path), definitions.load("tuner")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copystat", _copies(after))
        assert_killed_in(lambda: make_agent_home(paths, tuner))
    agent_home = make_agent_home(paths, tuner)
    assert _files(agent_home.programs / "builtin") == _files(Path(str(files("evopolicygym.agents") / "builtin")))
    assert [path.name for path in agent_home.programs.iterdir()] == ["builtin"]


def test_a_login_is_removed_from_a_finished_run(tmp_path):
    paths = RunPaths(tmp_path)
    login, other = (tmp_path / "agent" / "home" / ".codex" / name for name in ("auth.json", "sessions.json"))
    login.parent.mkdir(parents=True)
    for path in (login, other):
        path.write_text("{}")
    delete_credentials(paths, str(tmp_path / "gone.toml"))
    assert login.exists()
    delete_credentials(paths, "codex")
    assert not login.exists() and other.exists()
