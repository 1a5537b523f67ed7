"""What an agent has in its sandbox, and keeps from turn to turn."""

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
from agent_testbed import AgentTestbed

from evopolicygym.errors import UserError
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess, make_python
from evopolicygym.sandbox.checkpoints import CheckpointStore, SnapshotRefused
from evopolicygym.sandbox.runtime import runtime

LEVELS = list(AgentLevel)
CONFINED = [AgentLevel.A, AgentLevel.B]


@pytest.fixture(scope="module")
def testbed():
    with AgentTestbed() as opened:
        yield opened


@pytest.mark.parametrize("level", LEVELS)
class TestPython:
    def test_numpy_and_scipy_work_and_simulators_are_not_there(self, testbed, level):
        code, text = testbed.shell(
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

    def test_environment_variables_are_not_inherited(self, testbed, level, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", testbed.canary)
        _, text = testbed.run(["python", "-c", "import json, os; print(json.dumps(dict(os.environ)))"], level,
                           environment={"TOLD": "yes"}, network=NetworkAccess.NONE)  # fmt: skip
        seen = json.loads(text)
        assert set(seen) - {"LC_CTYPE"} == {"TOLD", "HOME", "LANG", "PATH", "PWD", "TMPDIR"}
        assert seen["HOME"] == str(testbed.folder / "home")

    def test_it_has_three_descriptors_a_session_and_no_terminal(self, testbed, level):
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
        secret = os.open(testbed.folder / "ledger.jsonl", os.O_RDONLY)
        os.set_inheritable(secret, True)
        _, text = testbed.run(["python", "-c", textwrap.dedent(source)], level)
        os.close(secret)
        assert text == "0 1 2 True\nno terminal\n"


@pytest.mark.parametrize("level", CONFINED)
class TestFolders:
    def test_the_workspace_is_written_and_the_judge_reads_it(self, testbed, level, tmp_path):
        code, text = testbed.shell(
            "echo 'x = 1' > system/policy.py && chmod 600 system/policy.py && mkdir -p a/b && mv a/b c", level
        )
        assert code == 0, text
        assert CheckpointStore(tmp_path / "store").snapshot(testbed.workspace / "system").has_policy

    def test_home_and_temporary_folder_last_for_the_run_and_are_its_own(self, testbed, level):
        testbed.shell("echo kept > ~/note; echo kept > $TMPDIR/note; mktemp > ~/where", level)
        assert testbed.shell("cat ~/note $TMPDIR/note", level)[1] == "kept\nkept\n"
        assert (testbed.folder / "home" / "note").read_text() == "kept\n"
        with AgentTestbed() as other:
            assert other.shell("cat ~/note $TMPDIR/note 2>/dev/null", level)[1] == ""

    def test_nothing_else_can_be_written(self, testbed, level):
        folders = "/ /usr /etc /var /root /home /opt /srv /run /dev"
        script = f"for f in {folders}; do touch $f/note 2>/dev/null && echo $f; done; :"
        assert testbed.shell(script, level)[1] == ""

    def test_a_folder_that_shows_the_run_is_refused(self, testbed, level):
        with pytest.raises(UserError, match="which belongs to the judge"):
            testbed.shell("true", level, readable=(testbed.folder.parent,))

    def test_a_folder_that_it_is_given_can_be_read_and_run_but_not_changed(self, testbed, level):
        tools = testbed.root / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "tool").write_text("#!/bin/sh\necho tool\n")
        (tools / "tool").chmod(0o755)
        _, text = testbed.shell(f"{tools}/tool; echo x > {tools}/tool || echo refused", level, readable=(tools,))
        assert "tool\n" in text and text.endswith("refused\n"), text

    def test_a_program_that_is_not_there_is_named(self, testbed, level):
        with pytest.raises(UserError, match=r"no-such-program cannot be started in the agent's sandbox.*\n.*PATH is"):
            testbed.run(["no-such-program"], level)

    def test_links_swapped_during_a_snapshot_are_not_followed(self, testbed, level, tmp_path):
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
        secret, system = str(testbed.folder / "hidden" / "result.json"), testbed.workspace / "race" / "system"
        shutil.rmtree(system.parent, ignore_errors=True)
        with testbed.start(["python", "-c", textwrap.dedent(flip)], level, environment={"SECRET_FILE": secret}):
            deadline = time.monotonic() + 120
            while not (taken and refused and followed) and time.monotonic() < deadline:
                with suppress(OSError):
                    followed |= testbed.canary in (system / "policy.py").read_text()  # as a judge must not
                for _ in range(50):
                    try:
                        taken += bool(store.snapshot(system))
                    except SnapshotRefused:
                        refused += 1
        assert taken and refused and followed, (taken, refused, followed, testbed.output())
        copies = [path.read_text() for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert not [text for text in copies if testbed.canary in text]

    def test_the_run_is_closed_again_afterwards(self, testbed, level):
        testbed.shell("true", level)
        for folder in (testbed.folder, testbed.other):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert "system.posix_acl_access" not in os.listxattr(folder)


class TestPrivateRoot:
    """Level A."""

    def test_feedback_is_the_judges_live_and_read_only(self, testbed):
        script = (
            "until cat feedback/late 2>/dev/null; do sleep 0.02; done; echo x > feedback/late || rm -rf feedback; :"
        )
        timer = threading.Timer(0.7, lambda: (testbed.folder / "feedback" / "late").write_text("published\n"))
        timer.start()
        _, text = testbed.shell(script, AgentLevel.A)
        assert text.startswith("published\n") and "Read-only" in text
        assert (testbed.folder / "feedback" / "late").read_text() == "published\n"

    def test_a_link_in_the_place_of_feedback_is_not_followed(self, testbed):
        feedback = testbed.workspace / "feedback"
        feedback.rmdir() if feedback.is_dir() else None
        feedback.symlink_to(testbed.user)
        _, text = testbed.shell("cat feedback/summary.json", AgentLevel.A)
        assert text == "{}"
        assert not feedback.is_symlink()

    def test_links_planted_in_the_temporary_folder_lead_nowhere(self, testbed):
        """The testbed lies beneath /tmp, so that mount points of the next turn are made in the agent's own /tmp."""
        if not str(testbed.root).startswith("/tmp/"):
            pytest.skip("the temporary folder is elsewhere")
        trap = testbed.root / "trap"
        trap.mkdir()
        trap.chmod(0o777)
        name = testbed.root.name
        testbed.shell(f"mv /tmp/{name} /tmp/moved; ln -s {trap} /tmp/{name}; ls -la /tmp", AgentLevel.A)
        assert (testbed.folder / "tmp" / name).is_symlink()
        code, text = testbed.shell("echo works", AgentLevel.A)
        assert (code, text) == (0, "works\n")
        assert list(trap.iterdir()) == []

    def test_only_its_own_processes_are_there(self, testbed):
        _, text = testbed.shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/environ 2>&1 | head -1", AgentLevel.A)
        assert int(text.splitlines()[0]) <= 5
        assert "denied" in text

    def test_it_has_terminals_and_shared_memory_of_its_own(self, testbed):
        source = (
            "import os, multiprocessing as m; os.openpty(); print(os.listdir('/dev/pts'), m.Pool(2).map(abs, [-1]))"
        )
        assert testbed.run(["python", "-c", source], AgentLevel.A)[1] == "['0', 'ptmx'] [1]\n"


def test_without_a_private_root_a_program_sees_its_own_memory_map_and_no_more_of_any_process(testbed):
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
    _, text = testbed.run(["python", "-c", textwrap.dedent(source), str(testbed.victim)], AgentLevel.B)
    assert text == "True\nmaps of self\n"


def test_the_users_home_and_the_judges_packages_are_never_shown(testbed, monkeypatch):
    monkeypatch.setenv("HOME", str(testbed.user))
    for shown in (testbed.user, testbed.user / ".ssh", Path(runtime().site)):
        with pytest.raises(UserError, match="which belongs to the judge"):
            testbed.shell("true", AgentLevel.A, readable=(shown,))


def test_more_packages_by_name(testbed):
    python = make_python(testbed.folder / "more", ("rich",))
    assert testbed.run(["python", "-c", "import rich"], AgentLevel.A, python=python)[0] == 0
    with pytest.raises(UserError, match="cannot have no_such_package"):
        make_python(testbed.folder / "more", ("no_such_package",))
