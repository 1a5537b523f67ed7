"""`run` with a Python function as the agent: whatever the function does, the run ends with an outcome."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym import RunClosed, SubmissionRefused, UserError, Workspace

TASK = "core16/mountain-car-continuous"
SMALL = {"budget": 4, "validation_cases": 1, "heldout_cases": 2, "seeds": "paper"}
POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): return [{}]
"""


def play(agent, folder: Path, **options) -> evopolicygym.Run:
    return evopolicygym.run(TASK, agent, folder=folder, **SMALL | options)


def search(workspace: Workspace) -> None:
    for force in (-0.5, 0.5):
        workspace.policy.write_text(POLICY.format(force))
        feedback = workspace.submit([0, 1])
        assert feedback.ok and feedback.cases == (0, 1) and len(feedback.returns) == len(feedback.lengths) == 2
        assert (feedback.folder / "summary.json").is_file()
        print(force, feedback.mean, feedback.remaining)


def test_a_function_plays_a_whole_run(tmp_path):
    run = play(search, tmp_path / "run", seed=7)
    record = run.record
    assert (run.outcome, record.times.closed_because, len(record.submissions)) == ("scored", "budget_spent", 2)
    assert (run.task, run.agent, record.agent.seed) == (TASK, "python:search", 7)
    assert run.score == sum(run.returns) / 2 and run.missing is None
    assert (tmp_path / "run/logs/agent/turn_001.out").read_text().startswith("-0.5 ")
    assert evopolicygym.load_run(tmp_path / "run") == run
    for command in (
        ["verify", run.folder],
        ["report", run.folder, "-o", tmp_path / "page.html"],
        ["analyze", run.folder],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "evopolicygym", *map(str, command)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_record_says_that_it_was_not_isolated(tmp_path):
    run = play(search, tmp_path / "run")
    assert run.publishable is False
    assert (run.record.isolation.agent, run.record.isolation.agent_network) == ("none", "open")
    assert "Python function" in run.record.isolation.agent_residues[0]
    assert len(run.record.agent.settings["sha256"]) == 64
    assert evopolicygym.leaderboard(run).boards[0].apart


def test_a_function_runs_in_its_own_process(tmp_path):
    seen = []

    def agent(workspace: Workspace) -> None:
        seen.append("only in the child")
        (workspace.path / "pids").write_text(f"{os.getpid()} {os.getppid()} {Path.cwd()}")

    play(agent, tmp_path / "run")
    pid, host, folder = (tmp_path / "run/workspace/pids").read_text().split()
    assert seen == [] and os.getpid() not in (int(pid), int(host)) and folder == str(tmp_path / "run/workspace")
    assert not _is_alive(int(pid)) and not _is_alive(int(host))


def test_attributes_of_the_workspace(tmp_path):
    def agent(workspace: Workspace) -> None:
        assert (workspace.budget, workspace.remaining, workspace.seed) == (4, 4, 3)
        assert "policy.py" in workspace.task and workspace.info()["env_meta"]["task"] == TASK
        assert "class Policy" in workspace.policy.read_text() and workspace.policy.parent == workspace.system
        for cases, status in (
            ([], "invalid_env_instance"),
            ("9999", "invalid_env_instance"),
            ("0-9", "budget_invalid"),
        ):
            with pytest.raises(SubmissionRefused) as refused:
                workspace.submit(cases)
            assert (refused.value.status, refused.value.remaining) == (status, 4), refused.value
        assert workspace.submit("0-3").remaining == 0
        with pytest.raises(RunClosed):
            workspace.submit([0])
        assert workspace.remaining == 0
        print("all of it")

    run = play(agent, tmp_path / "run", seed=3)
    assert (run.folder / "logs/agent/turn_001.out").read_text() == "all of it\n"
    assert run.record.turns[0].exit_code == 0


def test_a_policy_that_does_not_load_is_feedback(tmp_path):
    def agent(workspace: Workspace) -> None:
        workspace.policy.write_text("import nothing_of_this_name\n")
        feedback = workspace.submit([0])
        print(feedback.status, feedback.ok, feedback.returns, feedback.mean, feedback.remaining)

    run = play(agent, tmp_path / "run")
    assert (run.folder / "logs/agent/turn_001.out").read_text() == "import_error False () None 3\n"
    assert (run.outcome, run.returns) == ("no_ok_submit", (run.record.task.failure_return,) * 2)


def raises(workspace: Workspace) -> None:
    raise ValueError("of its own making")


def asks_for_too_much(workspace: Workspace) -> None:
    workspace.submit([9999])


def exits(workspace: Workspace) -> None:
    sys.exit("for a reason")


def exits_hard(workspace: Workspace) -> None:
    os._exit(7)


def dies(workspace: Workspace) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_host(workspace: Workspace) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@pytest.mark.parametrize(
    ("agent", "code", "message"),
    [
        (raises, 1, "ValueError: of its own making"),
        (asks_for_too_much, 1, "SubmissionRefused: invalid_env_instance: "),
        (exits, 1, "for a reason"),
        (exits_hard, 7, "exit code 7"),
        (dies, 137, "exit code 137"),
        (kills_its_host, 137, "was killed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_function_that_fails_ends_the_run_like_any_agent(tmp_path, agent, code, message):
    """It is called again, and given up after three failures in a row: it never worked, which is no score."""
    with pytest.raises(evopolicygym.RunSuspended) as raised:
        play(agent, tmp_path / "run")
    assert raised.value.reason == "agent_never_worked" and message in raised.value.cause
    assert message in str(raised.value) and "Start a new run" in str(raised.value)
    run = evopolicygym.load_run(tmp_path / "run")
    assert run.outcome is None and run.record.suspended.reason == "agent_never_worked"
    assert [turn.failure for turn in run.record.turns] == ["client"] * 3
    assert run.record.turns[0].exit_code == code and message in run.record.turns[0].message
    ended = evopolicygym.finish(tmp_path / "run")
    assert (ended.outcome, ended.record.times.closed_because) == ("agent_never_worked", "finished_by_hand")
    assert ended.score is None and "never worked" in ended.missing


def test_a_function_that_recovers_is_reported_too(tmp_path):
    def agent(workspace: Workspace) -> None:
        if not (workspace.path / "tried").exists():
            (workspace.path / "tried").touch()
            raise ValueError("once")
        workspace.submit("0-3")

    notices: list[str] = []
    run = play(agent, tmp_path / "run", notice=notices.append)
    log = run.folder / "logs/agent/turn_001.err"
    assert notices == [f"the agent python:agent failed in 1 of 2 turns. Last error: ValueError: once (log: {log})"]
    assert run.outcome == "scored" and log.is_file()


def test_what_was_submitted_before_a_failure_counts(tmp_path):
    def agent(workspace: Workspace) -> None:
        if workspace.remaining == workspace.budget:
            workspace.submit([0])
        raise RuntimeError

    run = play(agent, tmp_path / "run")
    assert (run.outcome, len(run.record.submissions), len(run.record.turns)) == ("scored", 1, 4)


def test_a_function_that_hangs_is_killed_with_all_that_it_started(tmp_path):
    def agent(workspace: Workspace) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        away = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (workspace.path / "pids").write_text(f"{os.getpid()} {away.pid}")
        workspace.submit([0])
        while True:
            time.sleep(60)

    run = play(agent, tmp_path / "run", max_hours=3 / 3600)
    assert (run.outcome, run.record.times.closed_because) == ("scored", "limit_hours")
    assert run.record.turns[0].failure == "timeout"
    assert not any(_is_alive(int(pid)) for pid in (run.folder / "workspace/pids").read_text().split())


def test_what_a_function_leaves_behind_is_killed(tmp_path):
    def agent(workspace: Workspace) -> None:
        away = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (workspace.path / "pid").write_text(str(away.pid))

    run = play(agent, tmp_path / "run")
    assert run.record.times.closed_because == "agent_stopped"
    assert not _is_alive(int((run.folder / "workspace/pid").read_text()))


def test_a_function_that_kills_its_host_takes_its_children_with_it(tmp_path):
    """Also a child in a session of its own."""

    def agent(workspace: Workspace) -> None:
        host = os.getppid()
        if os.fork() == 0:
            os.setsid()
            (workspace.path / "pid").write_text(str(os.getpid()))
            os.kill(host, signal.SIGKILL)
        time.sleep(600)

    with pytest.raises(evopolicygym.RunSuspended):
        play(agent, tmp_path / "run")
    assert not _is_alive(int((tmp_path / "run/workspace/pid").read_text()))


def test_a_function_that_stops_its_host_is_ended(tmp_path):
    def agent(workspace: Workspace) -> None:
        os.kill(os.getppid(), signal.SIGSTOP)
        (workspace.path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    run = play(agent, tmp_path / "run", max_hours=1 / 3600)
    assert run.record.times.closed_because == "limit_hours"
    assert not _is_alive(int((run.folder / "workspace/pid").read_text()))


def test_a_host_holds_nothing_of_another_run_of_the_process(tmp_path):
    """Two runs in threads: the second function sees no descriptor of the first run, and the first run returns while the
    second function plays."""

    def first(workspace: Workspace) -> None:
        (workspace.path / "started").touch()
        while not (tmp_path / "second/workspace/fds").exists():
            time.sleep(0.05)

    def second(workspace: Workspace) -> None:
        names = [
            f"/proc/{pid}/fd/{name}" for pid in (os.getpid(), os.getppid()) for name in os.listdir("/proc/self/fd")
        ]
        links = [os.readlink(name) for name in names if os.path.lexists(name)]
        (workspace.path / "fds.new").write_text("\n".join(links))
        (workspace.path / "fds.new").rename(workspace.path / "fds")
        while not (tmp_path / "go").exists():
            time.sleep(0.05)

    ended = []
    thread = threading.Thread(target=lambda: ended.append(play(first, tmp_path / "first")))
    thread.start()
    while not (tmp_path / "first/workspace/started").exists():
        time.sleep(0.05)
    task = "core16/acrobot"  # other cases: the first run's hidden scoring does not wait for the second agent
    two = threading.Thread(
        target=lambda: ended.append(evopolicygym.run(task, second, folder=tmp_path / "second", **SMALL))
    )
    two.start()
    try:
        thread.join(60)
        assert [run.folder.name for run in ended] == ["first"]
    finally:
        (tmp_path / "go").touch()
        thread.join()
        two.join()
    links = (tmp_path / "second/workspace/fds").read_text()
    assert str(tmp_path / "first") not in links and links.count("socket:") <= 1


def test_values_of_agent_env_are_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_SECRET_KEY", "sk-verysecret-0123456789")

    def agent(workspace: Workspace) -> None:
        print("key", os.environ["MY_SECRET_KEY"])
        raise RuntimeError(f"401 for {os.environ['MY_SECRET_KEY']}")

    with pytest.raises(evopolicygym.RunSuspended, match=r"401 for \[MY_SECRET_KEY\]"):
        play(agent, tmp_path / "run", agent_env=["MY_SECRET_KEY"])
    run = evopolicygym.load_run(tmp_path / "run")
    texts = [path.read_bytes() for path in run.folder.rglob("*") if path.is_file()]
    assert not any(b"sk-verysecret" in text for text in texts)
    assert "401 for [MY_SECRET_KEY]" in run.record.turns[0].message


def test_another_function_does_not_continue_a_run(tmp_path):
    program, root = tmp_path / "play.py", tmp_path / "run"
    command = [sys.executable, str(program), str(root)]
    script = "import evopolicygym, sys\ndef agent(workspace): workspace.submit([CASE])\n"
    script += f"evopolicygym.run({TASK!r}, agent, folder=sys.argv[1], **{SMALL!r})\n"
    hashes = []
    for case in (0, 1):
        program.write_text(script.replace("CASE", str(case)))
        hashes.append(hashlib.sha256(program.read_bytes()).hexdigest())
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and all(digest in done.stderr for digest in hashes), done.stderr


def test_it_plays_where_an_event_loop_is_running_and_from_a_thread(tmp_path):
    """As in a notebook."""

    async def notebook() -> evopolicygym.Run:
        return play(search, tmp_path / "loop")

    runs = [asyncio.run(notebook())]
    thread = threading.Thread(target=lambda: runs.append(play(search, tmp_path / "thread")))
    thread.start()
    thread.join()
    assert [run.outcome for run in runs] == ["scored", "scored"] and runs[0].returns == runs[1].returns


def test_progress_is_reported(tmp_path):
    seen: list[evopolicygym.RunProgress] = []
    run = play(search, tmp_path / "run", progress=seen.append)
    assert seen[-1].phase == "finished" and len(seen) == len(set(seen))
    assert (seen[-1].charged, seen[-1].budget, seen[-1].submissions, seen[-1].turns) == (4, 4, 2, 1)
    assert seen[-1].best_train_mean == max(submission.train.mean for submission in run.record.submissions)


def test_a_progress_callback_that_fails_does_not_end_the_run(tmp_path):
    with pytest.warns(UserWarning, match="progress is not reported any more: ZeroDivisionError"):
        assert play(search, tmp_path / "run", progress=lambda _: 1 / 0).outcome == "scored"


SCRIPT = """
import os, pathlib, sys, time
import evopolicygym

def agent(workspace):
    pid = workspace.path / "pid"
    if not pid.exists():
        workspace.submit([0])
        pid.write_text(str(os.getpid()))
        time.sleep(600)
    workspace.submit([1, 2, 3])

run = evopolicygym.run({task!r}, agent, folder=sys.argv[1], **{small!r})
print(run.outcome, len(run.record.submissions), *(turn.failure for turn in run.record.turns))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopping_a_run_kills_its_function_and_the_run_can_be_continued(tmp_path, number):
    program, root = tmp_path / "play.py", tmp_path / "run"
    program.write_text(SCRIPT.format(task=TASK, small=SMALL))
    command = [sys.executable, str(program), str(root)]
    with subprocess.Popen(command) as first:
        while not (root / "workspace/pid").exists() and first.poll() is None:
            time.sleep(0.05)
        first.send_signal(number)
    agent = int((root / "workspace/pid").read_text())
    while _is_alive(agent):  # ends with the test's own time limit
        time.sleep(0.05)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert first.returncode == -number and done.stdout == "scored 2 interrupted None\n"


def test_the_command_cannot_resume_the_run_of_a_function(tmp_path):
    play(search, tmp_path / "run")
    (tmp_path / "run/run.json").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "evopolicygym", "run", "--resume", str(tmp_path / "run")], capture_output=True, text=True
    )
    assert done.returncode == 2 and "call evopolicygym.run" in done.stderr


def test_names_and_commands_play_too(tmp_path):
    by_name = play("starter", tmp_path / "name")
    program = tmp_path / "agent" / "agent.py"
    program.parent.mkdir()
    program.write_text("import subprocess, sys\nsubprocess.run([sys.executable, 'submit.py', '0-3'], check=True)\n")
    by_command = play([sys.executable, str(program)], tmp_path / "command")
    assert by_name.returns == by_command.returns and by_name.publishable and by_command.publishable
    assert (by_name.agent, by_command.agent) == ("starter", "command")


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        ("codecs", {}, "there is no agent 'codecs'"),
        ("command", {}, "Pass it as a list"),
        ([], {}, "--agent command needs a program"),
        (3, {}, r"^agent must be a name, a list of words or a function \(got: 3\)$"),
        (None, {}, r"\(got: None\)"),
        ("starter", {"budget": 0}, r"^budget must be at least 1 \(got: 0\)$"),
        ("starter", {"max_hours": -1.0}, r"^max_hours must be greater than 0 \(got: -1.0\)$"),
        ("starter", {"agent_hosts": "one.example"}, "agent_hosts"),
        ("starter", {"isolation": "C"}, "isolation"),
        ("starter", {"engine": "moon"}, "engine"),
        ("starter", {"ray_address": "auto"}, "needs Ray"),
        (search, {"model": "large"}, "takes no model"),
        (search, {"agent_isolation": "A"}, "cannot be isolated"),
        (search, {"agent_network": "none"}, "cannot be isolated"),
    ],
)
def test_wrong_arguments_are_named_and_leave_nothing(tmp_path, agent, options, message):
    with pytest.raises(UserError, match=message):
        play(agent, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_the_default_folder_is_new_and_named_after_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = evopolicygym.run(TASK, search, **SMALL)
    assert run.folder.parent == Path("runs") and run.folder.name.startswith("core16-mountain-car-continuous__search__")


def test_the_default_folder_of_an_environment_of_ones_own_has_no_colon(tmp_path, monkeypatch):
    """It would end the path at which the agent's program finds its modules."""
    monkeypatch.chdir(tmp_path)
    run = evopolicygym.run("toys:Toy-v0", "starter", name="my own", **SMALL)
    assert run.outcome == "scored" and run.folder.name.startswith("toys-Toy-v0__my-own__s0__")
    with pytest.raises(UserError, match="whose path has ':'"):
        evopolicygym.run("toys:Toy-v0", "starter", folder="a:b", **SMALL)
    assert not Path("a:b").exists()


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
