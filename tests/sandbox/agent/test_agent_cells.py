"""What an agent has in its cell, and keeps from turn to turn."""

from __future__ import annotations

import json
import os
import shutil
import stat
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from yard import Yard

from evopolicygym.errors import UserError
from evopolicygym.sandbox.agent.cell import AgentLevel, Network
from evopolicygym.sandbox.agent.python import make_python
from evopolicygym.sandbox.checkpoints import CheckpointStore, SnapshotRefused
from evopolicygym.sandbox.runtime import runtime

LEVELS = list(AgentLevel)
CONFINED = [AgentLevel.A, AgentLevel.B]


@pytest.fixture(scope="module")
def yard():
    with Yard() as one:
        yield one


@pytest.mark.parametrize("level", LEVELS)
class TestPython:
    def test_numpy_and_scipy_work_and_simulators_are_not_there(self, yard, level):
        code, text = yard.shell(
            textwrap.dedent("""
            python -c 'import numpy, scipy.linalg; print(scipy.linalg.solve(numpy.eye(2) * 2, numpy.ones(2)).tolist())'
            python3 -c 'import multiprocessing, sqlite3, ssl, ctypes, venv' && echo library
            for name in gymnasium evopolicygym mujoco pip; do
                python -c "import $name" 2>&1 | grep -q ModuleNotFoundError || echo "$name is there"
            done
            /usr/bin/python3 -c "import gymnasium" 2>/dev/null && echo "the system has it"
            exit 0
            """),
            level,
        )
        assert (code, text) == (0, "[0.5, 0.5]\nlibrary\n")

    def test_the_environment_is_the_cells_alone(self, yard, level, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", yard.canary)
        _, text = yard.run(["python", "-c", "import json, os; print(json.dumps(dict(os.environ)))"], level,
                           environment={"TOLD": "yes"}, network=Network.NONE)  # fmt: skip
        told = json.loads(text)
        assert set(told) - {"LC_CTYPE"} == {"TOLD", "HOME", "LANG", "PATH", "PWD", "TMPDIR"}
        assert told["HOME"] == str(yard.folder / "home")

    def test_it_has_three_descriptors_a_session_and_no_terminal(self, yard, level):
        source = """
        import os
        def open_ones():
            for number in range(256):
                try:
                    os.fstat(number)
                except OSError:
                    continue
                yield number
        print(*open_ones(), os.getsid(0) == os.getpid())
        try:
            os.open("/dev/tty", os.O_RDWR)
        except OSError:
            print("no terminal")
        """
        secret = os.open(yard.folder / "ledger.jsonl", os.O_RDONLY)
        os.set_inheritable(secret, True)
        _, text = yard.run(["python", "-c", textwrap.dedent(source)], level)
        os.close(secret)
        assert text == "0 1 2 True\nno terminal\n"


@pytest.mark.parametrize("level", CONFINED)
class TestFolders:
    def test_the_workspace_is_written_and_the_judge_reads_it(self, yard, level, tmp_path):
        code, text = yard.shell(
            "echo 'x = 1' > system/policy.py && chmod 600 system/policy.py && mkdir -p a/b && mv a/b c", level
        )
        assert code == 0, text
        assert CheckpointStore(tmp_path / "store").snapshot(yard.workspace / "system").has_policy

    def test_home_and_temporary_folder_last_for_the_run_and_are_its_own(self, yard, level):
        yard.shell("echo kept > ~/note; echo kept > $TMPDIR/note; mktemp > ~/where", level)
        assert yard.shell("cat ~/note $TMPDIR/note", level)[1] == "kept\nkept\n"
        assert (yard.folder / "home" / "note").read_text() == "kept\n"
        with Yard() as other:
            assert other.shell("cat ~/note $TMPDIR/note 2>/dev/null", level)[1] == ""

    def test_nothing_else_can_be_written(self, yard, level):
        folders = "/ /usr /etc /var /root /home /opt /srv /run /dev"
        script = f"for f in {folders}; do touch $f/note 2>/dev/null && echo $f; done; :"
        assert yard.shell(script, level)[1] == ""

    def test_a_folder_that_shows_the_run_is_refused(self, yard, level):
        with pytest.raises(UserError, match="which is the judge's"):
            yard.shell("true", level, readable=(yard.folder.parent,))

    def test_a_folder_that_it_is_given_can_be_read_and_run_but_not_changed(self, yard, level):
        tools = yard.root / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "tool").write_text("#!/bin/sh\necho tool\n")
        (tools / "tool").chmod(0o755)
        _, text = yard.shell(f"{tools}/tool; echo x > {tools}/tool || echo refused", level, readable=(tools,))
        assert "tool\n" in text and text.endswith("refused\n"), text

    def test_a_program_that_is_not_there_is_named(self, yard, level):
        with pytest.raises(UserError, match=r"no-such-program cannot be started in the agent's cell.*\n.*PATH is"):
            yard.run(["no-such-program"], level)

    def test_links_flipped_during_a_snapshot_win_nothing(self, yard, level, tmp_path):
        """Until every way it can go was seen; if one does not come in two minutes, nothing was proven."""
        flip = """
        import os
        secret = os.environ["SECRET_FILE"]
        os.mkdir("race")
        os.chdir("race")
        os.mkdir("system")
        while True:
            for make in (lambda: os.symlink(secret, "new"), lambda: open("new", "w").write("x = 1")):
                make()
                os.rename("new", "system/policy.py")
            os.symlink(os.path.dirname(secret), "folder")
            os.rename("system", "aside")
            os.rename("folder", "system")
            os.unlink("system")
            os.rename("aside", "system")
        """
        store, taken, refused, followed = CheckpointStore(tmp_path / "store"), 0, 0, False
        secret, system = str(yard.folder / "hidden" / "result.json"), yard.workspace / "race" / "system"
        shutil.rmtree(system.parent, ignore_errors=True)
        with yard.start(["python", "-c", textwrap.dedent(flip)], level, environment={"SECRET_FILE": secret}):
            deadline = time.monotonic() + 120
            while not (taken and refused and followed) and time.monotonic() < deadline:
                with suppress(OSError):
                    followed |= yard.canary in (system / "policy.py").read_text()  # as a judge must not
                for _ in range(50):
                    try:
                        taken += bool(store.snapshot(system))
                    except SnapshotRefused:
                        refused += 1
        assert taken and refused and followed, (taken, refused, followed, yard.output())
        copies = [path.read_text() for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert not [text for text in copies if yard.canary in text]

    def test_the_run_is_closed_again_afterwards(self, yard, level):
        yard.shell("true", level)
        for folder in (yard.folder, yard.other):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert "system.posix_acl_access" not in os.listxattr(folder)


class TestPrivateRoot:
    """Level A."""

    def test_feedback_is_the_judges_live_and_read_only(self, yard):
        script = (
            "until cat feedback/late 2>/dev/null; do sleep 0.02; done; echo x > feedback/late || rm -rf feedback; :"
        )
        timer = threading.Timer(0.7, lambda: (yard.folder / "feedback" / "late").write_text("published\n"))
        timer.start()
        _, text = yard.shell(script, AgentLevel.A)
        assert text.startswith("published\n") and "Read-only" in text
        assert (yard.folder / "feedback" / "late").read_text() == "published\n"

    def test_a_link_in_the_place_of_feedback_is_not_followed(self, yard):
        feedback = yard.workspace / "feedback"
        feedback.rmdir() if feedback.is_dir() else None
        feedback.symlink_to(yard.user)
        _, text = yard.shell("cat feedback/summary.json", AgentLevel.A)
        assert text == "{}"
        assert not feedback.is_symlink()

    def test_links_planted_in_the_temporary_folder_lead_nowhere(self, yard):
        """The yard lies beneath /tmp, so that mount points of the next turn are made in the agent's own /tmp."""
        if not str(yard.root).startswith("/tmp/"):
            pytest.skip("the temporary folder is elsewhere")
        trap = yard.root / "trap"
        trap.mkdir()
        trap.chmod(0o777)
        name = yard.root.name
        yard.shell(f"mv /tmp/{name} /tmp/moved; ln -s {trap} /tmp/{name}; ls -la /tmp", AgentLevel.A)
        assert (yard.folder / "tmp" / name).is_symlink()
        code, text = yard.shell("echo works", AgentLevel.A)
        assert (code, text) == (0, "works\n")
        assert list(trap.iterdir()) == []

    def test_only_its_own_processes_are_there(self, yard):
        _, text = yard.shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/environ 2>&1 | head -1", AgentLevel.A)
        assert int(text.splitlines()[0]) <= 5
        assert "denied" in text

    def test_it_has_terminals_and_shared_memory_of_its_own(self, yard):
        source = (
            "import os, multiprocessing as m; os.openpty(); print(os.listdir('/dev/pts'), m.Pool(2).map(abs, [-1]))"
        )
        assert yard.run(["python", "-c", source], AgentLevel.A)[1] == "['0', 'ptmx'] [1]\n"


def test_without_a_private_root_a_program_sees_its_own_memory_map_and_no_more_of_any_process(yard):
    """Bun 1.3, and so OpenCode, aborts where it cannot read where its stack is."""
    source = """
        import os, sys
        print("[stack]" in open("/proc/self/maps").read())
        for process in ("self", os.getppid(), sys.argv[1]):
            for name in "maps cmdline environ mem status smaps cgroup task fd".split():
                try:
                    os.close(os.open(f"/proc/{process}/{name}", os.O_RDONLY))
                    print(name, "of", process)
                except PermissionError:
                    pass
    """
    _, text = yard.run(["python", "-c", textwrap.dedent(source), str(yard.victim)], AgentLevel.B)
    assert text == "True\nmaps of self\n"


def test_the_users_home_and_the_judges_packages_are_never_shown(yard, monkeypatch):
    monkeypatch.setenv("HOME", str(yard.user))
    for shown in (yard.user, yard.user / ".ssh", Path(runtime().site)):
        with pytest.raises(UserError, match="which is the judge's"):
            yard.shell("true", AgentLevel.A, readable=(shown,))


def test_more_packages_by_name(yard):
    python = make_python(yard.folder / "more", ("rich",))
    assert yard.run(["python", "-c", "import rich"], AgentLevel.A, python=python)[0] == 0
    with pytest.raises(UserError, match="cannot have no_such_package"):
        make_python(yard.folder / "more", ("no_such_package",))
