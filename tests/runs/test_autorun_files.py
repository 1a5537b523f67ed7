"""Files that git, shells and editors execute, planted for whoever reads the run: disarmed after the run."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.integrity import SUFFIX
from evopolicygym.runs.serve import inspect_leftovers
from evopolicygym.sandbox.checkpoints import AUTORUN_NAMES, CheckpointStore

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


@pytest.fixture
def paths(tmp_path):
    paths = RunPaths(tmp_path / "run")
    paths.make()
    return paths


class Planter:
    """Repositories whose settings run a command that leaves a mark."""

    def __init__(self, folder, paths):
        self.mark, self.workspace = folder / "mark", paths.workspace
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(self, folder, *words):
        subprocess.run(["git", *words], cwd=folder, env=self.environment, capture_output=True)

    def runs_in(self, folder):
        """Return whether `git status` in the folder executes the command."""
        self.mark.unlink(missing_ok=True)
        self.git(folder, "status")
        return self.mark.exists()

    def plant(self, settings):
        with open(settings, "a") as file:
            file.write(f'[core]\nfsmonitor = "touch {self.mark}; false"\n')

    def repository(self):
        self.git(self.workspace, "init", "-q")
        self.plant(self.workspace / ".git" / "config")
        return self.workspace / ".git"

    def bare(self, name="bare"):
        folder = self.workspace / "lib" / name
        folder.parent.mkdir()
        self.git(self.workspace, "init", "-q", "--bare", str(folder))
        self.git(folder, "config", "core.bare", "false")
        self.git(folder, "config", "core.worktree", str(self.workspace))
        self.plant(folder / "config")
        return folder


@pytest.fixture
def planter(paths, tmp_path):
    return Planter(tmp_path, paths)


@needs_git
def test_a_repository_is_disarmed(paths, planter):
    planter.repository()
    (paths.workspace / "sub").mkdir()
    assert planter.runs_in(paths.workspace) and planter.runs_in(paths.workspace / "sub"), "control"
    note = inspect_leftovers(paths)
    assert note["renamed"] == ["workspace/.git", f"workspace/.git{SUFFIX}/HEAD"] and note["error"] is None
    renamed = paths.workspace / f".git{SUFFIX}"
    assert renamed.is_dir() and (renamed / "config").exists(), "its content is kept"
    for folder in (paths.workspace, paths.workspace / "sub", renamed, renamed / "objects"):
        assert not planter.runs_in(folder)


@needs_git
def test_the_inside_of_a_repository_is_disarmed(paths, planter):
    """Where its settings say that the files are elsewhere, git works from within."""
    folder = planter.repository()
    planter.git(folder, "config", "core.worktree", str(paths.workspace))
    assert planter.runs_in(folder), "control"
    inspect_leftovers(paths)
    assert not planter.runs_in(paths.workspace / f".git{SUFFIX}")


@needs_git
def test_a_bare_repository_is_disarmed(paths, planter):
    folder = planter.bare()
    assert planter.runs_in(folder) and planter.runs_in(folder / "refs"), "control"
    assert inspect_leftovers(paths)["renamed"] == ["workspace/lib/bare/HEAD"]
    assert not planter.runs_in(folder) and not planter.runs_in(folder / "refs")


@needs_git
@pytest.mark.parametrize("kind", ["file", "link", "common"])
def test_a_repository_with_its_settings_elsewhere_is_disarmed(paths, planter, kind, tmp_path):
    """Also outside of the workspace, in the temporary folder of the agent."""
    away = tmp_path / "away"
    shutil.move(planter.bare(), away)
    pointer = paths.workspace / ".git"
    if kind == "file":
        pointer.write_text(f"gitdir: {away}\n")
    elif kind == "link":
        pointer.symlink_to(away)
    else:
        pointer = paths.workspace / "sub"
        pointer.mkdir()
        (pointer / "HEAD").write_text("ref: refs/heads/main\n")
        (pointer / "commondir").write_text(f"{away}\n")
        planter.git(away, "config", "--unset", "core.worktree")
        planter.git(away, "config", "extensions.worktreeConfig", "true")
        (pointer / "config.worktree").write_text(f"[core]\nworktree = {paths.workspace}\n")
    where = pointer if kind == "common" else paths.workspace
    assert planter.runs_in(where), "control"
    assert inspect_leftovers(paths)["renamed"] == ["workspace/sub/HEAD" if kind == "common" else "workspace/.git"]
    assert not planter.runs_in(where) and (away / "HEAD").exists()


def test_files_of_shells_and_editors_are_renamed(paths):
    """At any depth and in HOME; a file that has the new name is not overwritten."""
    below = paths.root / "agent" / "home" / "x"
    below.mkdir(parents=True)
    for name in AUTORUN_NAMES:
        (paths.workspace / name).write_text("old")
        (below / name.upper()).mkdir()
    (paths.workspace / f".envrc{SUFFIX}").write_text("kept")
    note = inspect_leftovers(paths)
    assert len(note["renamed"]) == 51 and note["renamed"][-1] == f"and {2 * len(AUTORUN_NAMES) - 50} more"
    names = os.listdir(paths.workspace)
    assert not AUTORUN_NAMES & set(names) and (paths.workspace / f".envrc{SUFFIX}").read_text() == "kept"
    assert len(names) == len(AUTORUN_NAMES) + 2 and not AUTORUN_NAMES & {name.lower() for name in os.listdir(below)}


@needs_git
@pytest.mark.parametrize("kind", ["repository", "bare"])
def test_a_repository_in_the_system_is_not_in_the_checkpoint(paths, planter, kind):
    """The submission is accepted, with the checkpoint of the folder without it."""
    (paths.system / "policy.py").write_text("class Policy: pass\n")
    store = CheckpointStore(paths.checkpoints)
    plain = store.snapshot(paths.system)
    planter.workspace = paths.system
    folder = planter.repository().parent if kind == "repository" else planter.bare()
    assert planter.runs_in(folder), "control"
    copy = store.folder(checkpoint := store.snapshot(paths.system))
    assert (copy / "policy.py").is_file() and (checkpoint == plain) is (kind == "repository")
    assert not any(planter.runs_in(path) for path in (copy, *copy.rglob("*")) if path.is_dir())


def test_nothing_that_programs_execute_is_in_a_checkpoint(paths):
    store = CheckpointStore(paths.checkpoints)
    (paths.system / "lib").mkdir()
    plain = store.snapshot(paths.system)
    for name in AUTORUN_NAMES:
        (paths.system / name).mkdir()
        (paths.system / "lib" / name.upper()).write_text("run me")
    assert store.snapshot(paths.system) == plain
    assert store.snapshot(paths.system, is_stored=True) != plain, "what was added to a stored one is seen"
