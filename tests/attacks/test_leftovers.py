"""A run always ends with an outcome, whatever files the agent leaves: each kind is played as a whole run.

The judge runs with limited memory and CPU time: work without a bound would end it, and fail the test.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from evopolicygym.suites.worker import _needs_agent
from server_helpers import AS_USER, COMMAND, with_task

pytestmark = pytest.mark.timeout(600)
TINY = ("--validation-cases", "1", "--heldout-cases", "1", "--jobs", "1", "--seeds", "paper", "--budget", "4")
MEMORY, CPU_S = 6 << 30, 240
SUBMIT = """
import json, os, socket, subprocess, sys
def submit(): subprocess.run([sys.executable, "submit.py", "0"], stdout=subprocess.DEVNULL, check=True)
"""


@pytest.fixture
def tmp_path():
    """Return a folder that the user nobody can use. `rm` removes it: pytest cannot remove deeply nested folders."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    subprocess.run(["rm", "-rf", folder])


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def evopolicygym(*words: object, user: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*([sys.executable, str(AS_USER)] if user else []), *COMMAND, *with_task(*words)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, preexec_fn=limited)


def program(folder: Path, code: str) -> Path:
    """Write a program that an agent that is another user can read."""
    own = folder / "program"
    own.mkdir(exist_ok=True)
    (own / "agent.py").write_text(SUBMIT + textwrap.dedent(code))
    return own / "agent.py"


def play(folder: Path, code: str, *options: str, user: bool = False, **environment: str):
    words = ("run", "toys:Toy-v0", "--run", folder / "run", "--json", *TINY, "--agent", "command", *options)
    return evopolicygym(*words, "--", "python3", program(folder, code), user=user, **environment)


def outcome(done: subprocess.CompletedProcess[str]) -> dict:
    """Return the outcome of a finished, scored run."""
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    record = json.loads(done.stdout)
    assert record["status"] == "finished" and record["outcome"]["kind"] == "scored"
    assert record["integrity"]["error"] is None
    return record


def scored(folder: Path, code: str, *options: str, **more) -> dict:
    return outcome(play(folder, code, "--max-turns", "1", *options, **more))


def is_verified(root: Path) -> bool:
    return evopolicygym("verify", root).returncode == 0


ALONE = {
    "1,500 nested folders": """
        submit()
        for _ in range(1500): os.mkdir("d"); os.chdir("d")
    """,
    "a name that is not UTF-8": """
        submit()
        open(b"\\xff\\xfe.py", "w").write("import gymnasium")
    """,
    "blank lines": """
        submit()
        open("notes.txt", "w").write("\\n" * (1 << 20))
    """,
    "a transcript of 8 TiB": """
        submit()
        os.write(1, b"hello")
        try: os.ftruncate(1, 1 << 43)
        except OSError: pass
    """,
}


NOT_IN_EVERYTHING = "a transcript of 8 TiB"  # the other kinds are also played together, below


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == NOT_IN_EVERYTHING else pytest.mark.slow) for name in ALONE]
)
def test_one_kind_of_leftover_files(name, tmp_path):
    """Each of them once ended runs without a score."""
    scored(tmp_path, ALONE[name])


EVERYTHING = """
    submit()

    def make(work, *arguments):  # what this system does not have is no leftover
        try: work(*arguments)
        except OSError as error: print(error, file=sys.stderr)

    def leave(folder, files):
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
        for number in range(files): open(f"file{number}", "w").close()
        for name in (b"\\xff\\xfe.py", b"new\\nline.py", b"\\x1b[2J\\r.py", b"-rf", b"x" * 255):
            make(lambda: open(name, "w").write("import gymnasium"))
        make(lambda: os.truncate(os.open("sparse.py", os.O_CREAT | os.O_WRONLY), 1 << 43))
        make(os.mkfifo, "fifo.py")
        make(os.mknod, "device.py", 0o20666, os.makedev(1, 5))
        make(lambda: socket.socket(socket.AF_UNIX).bind("socket.py"))
        for target in ("/dev/zero", "/proc/self/fd/0", ".", "loop", "/etc"):
            make(os.symlink, target, f"link{len(target)}.py")
        make(os.symlink, "loop", "loop")
        for mode in (0o000, 0o111, 0o444, 0o555):
            os.makedirs(f"mode{mode}/.git/objects")
            os.chmod(f"mode{mode}", mode)
        os.makedirs("bare/objects"); os.mkdir("bare/refs")
        open("bare/HEAD", "w").write("ref: refs/heads/main")
        open(".envrc", "w").write("touch mark")
        open("minified.js", "w").write("pip -" * 300_000)
        open("blank.txt", "w").write("\\n" * 300_000)
        for _ in range(1200): os.mkdir("deep"); os.chdir("deep")  # beyond a path and a recursion
        os.mkdir(".git")

    for folder in (os.environ["HOME"], os.environ["TMPDIR"], os.environ["EVOPOLICYGYM_WORKSPACE"]):
        leave(folder, FILES)
    leave(os.environ["EVOPOLICYGYM_SYSTEM"], 10)
    os.chdir(os.environ["EVOPOLICYGYM_WORKSPACE"])
    for name in ("door.json", "AGENTS.md", "submit.py"):
        os.path.exists(name) and os.remove(name)
        os.mkdir(name)
    for text in (b'"\\\\ud800"', b"[" * 100_000, b"9" * 5000, b"\\xff\\0"):
        os.write(1, b'{"text": ' + text + b"}\\n")
    for _ in range(FLOOD >> 16): os.write(2, bytes(1 << 16)); os.write(1, bytes(1 << 16))
    for stream in (0, 1, 2): make(os.fchmod, stream, 0)
    os.chmod(".", 0)
"""


def everything(files: int, flood: int) -> str:
    return EVERYTHING.replace("FILES", str(files)).replace("FLOOD", str(flood))


def check_everything(record: dict) -> None:
    note = record["integrity"]
    wheres = {sign["kind"]: sign["where"] for sign in note["signs"]}
    assert "simulator_import" in wheres
    assert "and" not in note["renamed"][0] and any(name.endswith("bare/HEAD") for name in note["renamed"])
    assert any(name.endswith("deep/deep/.git") for name in note["renamed"])
    assert any("MiB of a file" in text for text in note["not_checked"])


def test_all_kinds_of_leftover_files_at_once(tmp_path):
    check_everything(scored(tmp_path, everything(200, 17 << 20)))
    assert (tmp_path / "run/logs/agent/turn_001.err").stat().st_size < 17 << 20
    assert b"bytes were left out" in (tmp_path / "run/logs/agent/turn_001.err").read_bytes()[-200:]
    assert is_verified(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["A", "B", "none"])
def test_leftover_files_in_large_numbers(tmp_path, level):
    """A hundred thousand files in each of three folders, and more output than is kept."""
    check_everything(scored(tmp_path, everything(100_000, 300 << 20), "--agent-isolation", level))
    assert b"bytes were left out" in (tmp_path / "run/logs/agent/turn_001.out").read_bytes()[-200:]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("level", ["A", pytest.param("B", marks=pytest.mark.slow)])
def test_leftover_files_of_an_ordinary_user(tmp_path, level):
    """The agent is the same user as the judge: what it makes inaccessible, the judge cannot open either."""
    options = ("--agent-isolation", level)
    check_everything(scored(tmp_path, everything(20, 0), *options, user=True, HOME=str(tmp_path)))


PLANT = """
    submit()
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "config", "core.fsmonitor", "touch {mark}; false"], check=True)
"""


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_planted_repository_is_disarmed_when_the_run_is_over(tmp_path):
    """The control: during the run it is there, and the next turn finds it."""
    code = PLANT.format(mark=tmp_path / "mark") + "    assert os.path.isdir('.git/objects')\n"
    record = outcome(play(tmp_path, code, "--max-turns", "2"))
    assert record["integrity"]["renamed"] == ["workspace/.git", "workspace/.git.left-by-agent/HEAD"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_COUNT": "1",
                   "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
    workspace = tmp_path / "run/workspace"
    subprocess.run(["git", "status"], cwd=workspace, env=environment, capture_output=True)
    assert not (tmp_path / "mark").exists()
    (workspace / ".git.left-by-agent/HEAD.left-by-agent").rename(workspace / ".git.left-by-agent/HEAD")
    (workspace / ".git.left-by-agent").rename(workspace / ".git")
    subprocess.run(["git", "status"], cwd=workspace, env=environment, capture_output=True)
    assert (tmp_path / "mark").exists(), "control: so it would have been"


TALKER = r"""
    asked = json.loads(sys.stdin.readline())
    submit()
    print("x" * (1 << 20), file=sys.stderr)
    for line in (b'{"turn": ' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe"):
        os.write(1, line + b"\n")
    secret = os.environ["MY_KEY"]
    os.write(1, b'{"text": "\\ud800 half, \\u0000 nul, ' + secret.encode() + b'", "stop": true, '
                b'"data": {"usage": {"output": 1e999}}}\n')
"""


def test_leftover_files_of_a_json_lines_agent(tmp_path):
    secret = "a-secret-of-mine"
    record = scored(tmp_path, TALKER, "--json-lines", "--agent-env", "MY_KEY", MY_KEY=secret)
    assert record["turns"][0]["failure"] is None and record["usage"]["output_tokens"] is None
    ledger = (tmp_path / "run/ledger.jsonl").read_text()
    assert "\\\\ud800 half, \\u0000 nul, [MY_KEY]" in ledger
    assert not subprocess.run(["grep", "-rl", secret, tmp_path / "run"], capture_output=True, text=True).stdout


@pytest.mark.parametrize("way", [(), ("--json-lines",)], ids=["started anew", "spoken to"])
def test_an_agent_that_removes_permissions_is_started_again(way, tmp_path):
    code = """
        import pathlib
        if sys.argv[1:] == ["talk"]: sys.stdin.readline()
        submit()
        for name in ("EVOPOLICYGYM_WORKSPACE", "HOME", "TMPDIR"): os.chmod(os.environ[name], 0)
        sys.exit(3)
    """
    record = outcome(play(tmp_path, code, *way, "--max-turns", "2"))
    assert len(record["turns"]) == 2 and record["budget"]["charged"] == 2
    assert all(turn["failure"] == "client" for turn in record["turns"])


def test_a_resumed_run_without_an_agent_home_is_scored(tmp_path):
    """Without isolation an agent can remove its HOME."""
    code = """
        submit()
        import shutil
        shutil.rmtree(os.environ["HOME"])
        os.mkfifo(os.environ["HOME"])
        os.kill(JUDGE, 9)
    """.replace("JUDGE", "int(os.environ['JUDGE_PID'])")
    words = ["run", "toys:Toy-v0", "--run", str(tmp_path / "run"), "--json", *TINY, "--agent", "command"]
    words += ["--agent-isolation", "none", "--agent-env", "JUDGE_PID", "--", "python3", str(program(tmp_path, code))]
    start = f"import os, sys; os.environ['JUDGE_PID'] = str(os.getpid()); os.execv({COMMAND[0]!r}, {COMMAND + words!r})"
    assert subprocess.run([sys.executable, "-c", start], capture_output=True).returncode == -signal.SIGKILL
    granted = words[words.index("--agent-isolation") :]
    done = evopolicygym("run", "--resume", tmp_path / "run", "--json", "toys:Toy-v0", *granted, JUDGE_PID="0")
    record = outcome(done)
    assert record["times"]["closed_because"] == "agent_failed"


FILL = """
    submit()
    filler = open("filler", "wb", buffering=0)
    for size in (1 << 16, 1):
        try:
            while True: filler.write(bytes(size))
        except OSError as error: print(error)
"""


def can_mount() -> bool:
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="cannot mount a small disk here: needs root and a mount namespace")
def test_an_agent_that_fills_the_disk_is_scored(tmp_path):
    """The disk space that was reserved is enough for it."""
    agent = program(tmp_path, FILL)
    record = play_on_small_disk(tmp_path, "--agent", "command", "--max-turns", "1", "--", "python3", str(agent))
    assert record["turns"][0]["failure"] is None


def play_on_small_disk(folder: Path, *options: str) -> dict:
    disk = folder / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=24m none "$0" && exec "$@"'
    words = ("run", "toys:Toy-v0", "--run", str(disk / "run"), "--json", *TINY, *options)
    command = ["unshare", "-m", "sh", "-c", script, str(disk), *COMMAND, *words]
    return outcome(subprocess.run(command, capture_output=True, text=True, preexec_fn=limited))


TOKENS = """
    print("x" * 10_000)
    print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 3000}}), flush=True)
    import time; time.sleep(0.5)  # it is copied while the disk is full
    os.remove("filler")
"""
VERSIONED = """#!/usr/bin/env python3
import sys
if "--version" in sys.argv: print("1.0"); sys.exit()
"""
DEFINITION = """
title = "Filler"
program = "{agent}"
argv = ["${{program}}"]
done = [{{ type = "turn.completed" }}]

[[usage]]
where = {{ type = "turn.completed" }}
scope = "turn"
input = "usage.input_tokens"
output = "usage.output_tokens"
input_includes_cache = false
"""


@pytest.mark.skipif(not can_mount(), reason="cannot mount a small disk here: needs root and a mount namespace")
def test_an_agent_that_fills_the_disk_while_it_reports_its_tokens_reaches_its_limit(tmp_path):
    """What it prints meanwhile is held, and is in the transcript when there is space again."""
    agent, definition = program(tmp_path, FILL + TOKENS), tmp_path / "filler.toml"
    agent.write_text(VERSIONED + agent.read_text())
    agent.chmod(0o755)
    definition.write_text(DEFINITION.format(agent=agent))
    record = play_on_small_disk(tmp_path, "--agent", str(definition), "--max-turns", "3", "--max-tokens", "1000")
    (turn,) = record["turns"]
    assert turn["usage"]["output"] == 3000 and turn["failure"] is None
    assert record["times"]["closed_because"] == "limit_tokens"


@pytest.mark.parametrize("how", ["finish", "resume"])
def test_a_kill_before_the_integrity_note_costs_no_score(how, tmp_path):
    """The score is written first; the process that finishes the run writes the note."""
    code = "submit()\nopen('x.py', 'w').write('import gymnasium')\n"
    assert play(tmp_path, code, "--max-turns", "1", EVOPOLICYGYM_FAILPOINT="repeated").returncode == -signal.SIGKILL
    root = tmp_path / "run"
    kinds = [json.loads(line)["kind"] for line in (root / "ledger.jsonl").read_text().splitlines()]
    assert kinds[-1] == "repeated" and "inspected" not in kinds and not _needs_agent(root)
    resume = ("run", "toys:Toy-v0", "--resume", root, "--json", "--", "python3", tmp_path / "program" / "agent.py")
    words = ("finish", root, "--json") if how == "finish" else resume
    record = outcome(evopolicygym(*words))
    assert [sign["where"] for sign in record["integrity"]["signs"]] == ["workspace/x.py"]
    kinds = [json.loads(line)["kind"] for line in (root / "ledger.jsonl").read_text().splitlines()]
    assert kinds[-2:] == ["inspected", "finished"] and is_verified(root)


def test_the_turn_that_spends_the_budget_is_recorded(tmp_path):
    """A suite that resumes such a run reads the usage of that turn."""
    code = "subprocess.run([sys.executable, 'submit.py', '0-3'])\nimport time\ntime.sleep(600)\n"
    assert play(tmp_path, code, EVOPOLICYGYM_FAILPOINT="feedback-delivered").returncode == -signal.SIGKILL
    assert _needs_agent(tmp_path / "run")
