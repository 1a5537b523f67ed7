"""The home of an agent: complete although the process that fills it was killed, without logins after the run, and
without what a run folder of another person brings along."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from evopolicygym.agents import definitions, home
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


LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
PLANTED = (
    *("python", "python/bin", "python/lib", f"python/{LIBRARY}", f"python/{LIBRARY}/site-packages"),
    *("python/pyvenv.cfg", "programs/builtin", "programs/builtin/tuner"),
)


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_is_written_through_a_link_in_a_run_folder(tmp_path, name):
    """The folders for the agent's programs are made anew each time."""
    paths, outside, tuner = RunPaths(tmp_path / "run"), tmp_path / "outside", definitions.load("tuner")
    make_agent_home(paths, tuner)
    link = paths.root / "agent" / name
    outside.mkdir()
    (outside / "numpy").symlink_to("mine")
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(outside)
    made = make_agent_home(paths, tuner)
    assert [(path.name, str(path.readlink())) for path in outside.iterdir()] == [("numpy", "mine")]
    assert (made.python.folder / LIBRARY / "site-packages" / "numpy" / "__init__.py").is_file()
    assert (made.programs / "builtin" / "tuner" / "__main__.py").is_file()
    assert not link.is_symlink()


LOGIN = ".codex/auth.json"


@pytest.mark.parametrize("has_login", [True, False])
def test_logins_in_a_run_folder_are_removed_before_those_of_the_user_are_copied(tmp_path, monkeypatch, has_login):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    paths, codex = RunPaths(tmp_path / "run"), definitions.load("codex")
    for path, text in ((tmp_path / "user" / LOGIN, "{}"), (tmp_path / "outside", "outside")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    planted = paths.root / "agent" / "home" / LOGIN
    planted.parent.mkdir(parents=True)
    for plant in (lambda: planted.write_text('{"token": 1}'), lambda: planted.symlink_to(tmp_path / "outside")):
        plant()
        logins = make_agent_home(paths, codex, has_login).logins
        assert logins == {}, "nothing is copied back from a folder that was not made here"
        assert planted.read_bytes() == b"{}" if has_login else not planted.is_symlink() and not planted.exists()
        planted.unlink(missing_ok=True)
    assert (tmp_path / "outside").read_text() == "outside"


def test_a_home_in_which_something_else_is_in_place_of_a_login_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    paths, codex = RunPaths(tmp_path / "run"), definitions.load("codex")
    (tmp_path / "user" / LOGIN).parent.mkdir(parents=True)
    (tmp_path / "user" / LOGIN).write_text("{}")
    (paths.root / "agent" / "home" / LOGIN).mkdir(parents=True)
    with pytest.raises(home.HomeUnusable, match="File exists"):
        make_agent_home(paths, codex)


def test_a_login_that_was_renewed_before_a_kill_is_copied_back(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    paths, codex, login = RunPaths(tmp_path / "run"), definitions.load("codex"), tmp_path / "user" / LOGIN
    login.parent.mkdir(parents=True)
    login.write_text('{"token": "first"}')
    copy = make_agent_home(paths, codex).home / LOGIN
    copy.write_text('{"token": "second"}')  # the client renewed it, and the judge was killed
    assert make_agent_home(paths, codex).logins == {LOGIN: b'{"token": "second"}'} == {LOGIN: login.read_bytes()}
    shutil.copytree(paths.root, tmp_path / "sent", symlinks=True)
    copy.write_text('{"token": "third"}')
    delete_credentials(paths, "codex")  # `finish` after another kill
    assert login.read_text() == '{"token": "third"}' and not copy.exists()
    for other in (paths, RunPaths(tmp_path / "sent")):  # finished, or sent by another person
        (other.root / "agent" / "home" / LOGIN).write_text('{"token": "planted"}')
        make_agent_home(other, codex)
        delete_credentials(other, "codex")
        assert login.read_text() == '{"token": "third"}'


def test_a_login_that_the_user_renewed_meanwhile_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    paths, codex, login = RunPaths(tmp_path / "run"), definitions.load("codex"), tmp_path / "user" / LOGIN
    login.parent.mkdir(parents=True)
    login.write_text('{"token": "first"}')
    (make_agent_home(paths, codex).home / LOGIN).write_text('{"token": "of the run"}')
    login.write_text('{"token": "of the user"}')
    make_agent_home(paths, codex)
    assert login.read_text() == '{"token": "of the user"}'
