"""Run folders of other people: their contents never weaken the isolation, and links out of them are not followed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
import evopolicygym.api.anchors as anchors
from command_server import run_command
from conftest import policy_source
from evopolicygym.errors import UserError
from evopolicygym.run_paths import RunPaths, check_run_folder
from evopolicygym.runs.agent.setup import delete_credentials
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.verify import verify
from evopolicygym.tasks.ids import comparable_id
from server_helpers import COMMAND, TOY, Server, command

MARK = "PWNED"
PLANT = """
try:
    open({mark!r}, "w").write(str(os.getuid()))
except OSError:
    pass
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two candidates of one run, both of which would leave a mark outside if they could."""
    folder = tmp_path_factory.mktemp("foreign")
    server = Server(folder / "run")
    for act in ("return 2", "return 1"):
        server.policy(policy_source(act=act, top=PLANT.format(mark=str(folder / MARK))))
        assert server.submit([0])[1]["status"] == "ok"
    server.finish()
    server.close()
    assert not (folder / MARK).exists()
    return server.root


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "run"
    shutil.copytree(played, copy)
    for parent, _, _ in os.walk(copy):
        os.chmod(parent, 0o755)
    (played.parent / MARK).unlink(missing_ok=True)
    return copy


@pytest.fixture
def mark(played: Path) -> Path:
    return played.parent / MARK


def reconfigure(run: Path, *lines: str, agreed: bool = False) -> None:
    """config.toml says something else; ``agreed``: the whole ledger is forged to agree with it."""
    config = run / "config.toml"
    names = {line.partition(" = ")[0] for line in lines}
    kept = [line for line in config.read_text().splitlines() if line.partition(" = ")[0] not in names]
    config.write_text("\n".join([*lines, *kept]) + "\n")
    if agreed:
        rewrite(run, lambda data: data.__setitem__("settings", hashlib.sha256(config.read_bytes()).hexdigest()))


def rewrite(run: Path, change: Any) -> None:
    """Alter the opening line."""
    change_lines(run, lambda line: line["kind"] == "opened" and change(line["data"]))


def change_lines(run: Path, change: Any) -> None:
    """Alter lines of the ledger, and forge the chain and the record's head anew."""
    previous, written = "0" * 64, b""
    for raw in (run / "ledger.jsonl").read_bytes().splitlines():
        line = json.loads(raw)
        change(line)
        forged = json.dumps(line | {"previous": previous}, separators=(",", ":")).encode()
        previous, written = hashlib.sha256(forged).hexdigest(), written + forged + b"\n"
    (run / "ledger.jsonl").write_bytes(written)
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"ledger_head": previous}))


def as_before(run: Path) -> None:
    """As ledgers were before they held the hash of the settings."""
    rewrite(run, lambda data: data.pop("settings", None))


def findings(run: Path, *options: str) -> dict[str, tuple[bool, str]]:
    done = command("verify", run, "--jobs", "1", "--json", *options)
    assert "Traceback" not in done.stderr, done.stderr
    return {finding["what"]: (finding["ok"], finding["detail"]) for finding in json.loads(done.stdout)["findings"]}


def test_settings_that_differ_from_the_ledger_are_refused(run, mark):
    assert findings(run)["settings"] == (True, "config.toml is as the run was opened")
    reconfigure(run, 'isolation = "none"')
    report = findings(run)
    assert not report["settings"][0] and "not what the run was opened with" in report["settings"][1]
    assert not report["replay"][0] and report["replay"][1].startswith("not played")
    assert not mark.exists()
    for refused in (
        ("score", run, "--all-checkpoints"),
        ("run", "--resume", run),
        ("serve", "toys:Toy-v0", "--run", run),
    ):
        done = command(*refused, "--isolation", "none")
        assert done.returncode == 2 and "not what the run was opened with" in done.stderr, done.stderr
    assert not mark.exists()


@pytest.mark.parametrize("agreed", [True, False])
def test_verify_isolates_policies_whatever_the_folder_says(run, mark, agreed):
    """Also a ledger that agrees with it, and one from before ledgers held the settings."""
    if not agreed:
        as_before(run)
    reconfigure(run, 'isolation = "none"', agreed=agreed)
    report = findings(run)
    assert not mark.exists()
    assert all(ok for ok, _ in report.values()), report
    assert report["settings"][1].startswith("config.toml is as" if agreed else "as the ledger says")
    assert findings(run, "--isolation", "none")["replay"][0]
    assert mark.exists()  # the control: this policy does what it can where it can


def test_score_without_isolation_needs_the_option(run, mark):
    reconfigure(run, 'isolation = "none"', agreed=True)
    asked = ("score", run, "--all-checkpoints", "--jobs", "1")
    done = command(*asked)
    assert done.returncode == 2 and "--isolation auto" in done.stderr and "--isolation none" in done.stderr
    assert command(*asked, "--isolation", "auto").returncode == 0
    assert not mark.exists()


def test_other_commands_without_isolation_need_the_option(run, mark):
    """An open run, so that there is something to play; and at last the control."""
    reconfigure(run, 'isolation = "none"', agreed=True)
    reopened(run)
    for asked in (("finish", run, "--jobs", "1"), ("serve", "toys:Toy-v0", "--run", run)):
        done = command(*asked)
        assert done.returncode == 2 and "could do all that you can do here" in done.stderr, done.stderr
    assert not mark.exists()
    assert command("finish", run, "--jobs", "1", "--isolation", "none").returncode == 0
    assert mark.exists()


def test_the_address_of_a_cluster_is_not_taken_from_a_folder(run):
    reconfigure(run, 'engine = "ray"', 'ray_address = "203.0.113.1:6379"', agreed=True)
    done = command("score", run, "--all-checkpoints", "--jobs", "1")
    assert done.returncode == 2 and "--engine local" in done.stderr
    assert command("score", run, "--all-checkpoints", "--jobs", "1", "--engine", "local").returncode == 0


GRANTS = {
    'isolation = "none"': "--agent-isolation none",
    "gateway = false": "--no-gateway",
    'shown = ["/etc"]': "--show /etc",
    'variables = ["HOME"]': "--agent-env HOME",
    'network = "open"': "--agent-network open",
    'hosts = ["203.0.113.1"]': "--agent-host 203.0.113.1",
    'base_url = "https://203.0.113.1/v1"': "--model-url https://203.0.113.1/v1",
}


def reopened(run: Path) -> Path:
    """As if its judge had been killed when the first submission was charged: there is something to play."""
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    charged = next(number for number, line in enumerate(lines) if b'"kind":"charged"' in line)
    (run / "ledger.jsonl").write_bytes(b"".join(lines[: charged + 1]))
    return run


def with_agent(run: Path, *lines: str) -> None:
    with open(run / "config.toml", "a") as config:
        config.write("\n".join(("[agent]", *lines)) + "\n")
    reconfigure(run, agreed=True)


def test_grants_to_an_agent_are_not_taken_from_a_folder(run, tmp_path):
    """Each grant is named as the option that gives it; nothing is started without all of them."""
    command_line = ["/bin/sh", "-c", f"touch {tmp_path}/{MARK}"]
    with_agent(run, 'name = "command"', f"command = {json.dumps(command_line)}", *GRANTS)
    done = command("run", "--resume", reopened(run), "--jobs", "1", "--agent-network", "open")
    assert done.returncode == 2 and "may come from another person" in done.stderr
    missing = done.stderr.partition("add: ")[2]
    assert all((flags in missing) == (flags != "--agent-network open") for flags in GRANTS.values()), done.stderr
    assert not (tmp_path / MARK).exists()


def test_files_of_the_agents_command_need_the_option_again(run, tmp_path):
    """The file and its neighbours would be shown to an agent that a folder chose."""
    (tmp_path / "secrets").mkdir()
    secret = tmp_path / "secrets" / "key"
    secret.write_text("SECRET")
    with_agent(run, 'name = "command"', f'command = ["tail", "{secret}"]', "turns = 1")
    reopened(run)
    asked = ("run", "toys:Toy-v0", "--resume", run, "--jobs", "1")
    for words in (asked, (*asked, "--", "tail", secret.parent)):
        done = command(*words)
        assert done.returncode == 2, done.stderr
    assert f"add: -- tail {secret}" in command(*asked).stderr
    assert not list((run / "logs").rglob("agent/*"))
    assert command(*asked, "--", "tail", secret).returncode in (0, 1)
    assert any("SECRET" in path.read_text() for path in (run / "logs" / "agent").rglob("*") if path.is_file())


def test_a_grant_that_is_given_again_is_accepted(run):
    with_agent(run, 'name = "starter"', 'isolation = "none"', 'hosts = ["203.0.113.1", "203.0.113.2"]', "turns = 1")
    reopened(run)
    resume = ("run", "toys:Toy-v0", "--resume", run, "--jobs", "1", "--agent-host", "203.0.113.2")
    both = (*resume, "--agent-host", "203.0.113.1")
    done = command(*resume)
    assert done.returncode == 2 and "add: --agent-host 203.0.113.1 --agent-isolation none" in done.stderr
    done = command(*both, "--agent-host", "203.0.113.3", "--agent-isolation", "none")
    assert done.returncode == 2 and "--agent-host 203.0.113.3 cannot be added" in done.stderr
    done = command(*both, "--agent-isolation", "none", "--show", "/etc")
    assert done.returncode == 2 and "--show cannot be given with --resume" in done.stderr
    done = command(*both, "--agent-isolation", "none")  # in another order than the folder's
    assert done.returncode == 0, done.stderr


def test_resuming_a_finished_run_changes_nothing(run):
    with_agent(run, 'name = "starter"', 'isolation = "none"')
    assert command("score", run, "--all-checkpoints", "--jobs", "1").returncode == 0  # its record is whole again
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = command("run", "--resume", run)
    assert done.returncode == 0 and "held-out" in done.stdout, done.stderr
    assert "is finished: nothing was played" in done.stderr
    done = command("run", "--resume", run, "--seal-key", run / "other.key")
    assert done.returncode == 0 and "--seal-key was not used" in done.stderr, done.stderr
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kind", ["validated", "judged"])
def test_finish_fails_if_the_ledger_gives_no_record(run, kind):
    change_lines(run, lambda line: line["kind"] == kind and line["data"]["tally"].__setitem__("lengths", []))
    (run / "run.json").unlink()
    done = command("finish", run, "--jobs", "1")
    assert done.returncode == 2 and "contradicts itself" in done.stderr and "Traceback" not in done.stderr


ACROBOT = Path(evopolicygym.__file__).parent / "tasks" / "core16" / "acrobot.toml"


def as_written(*arguments: object, cwd: Path) -> str:
    """What a command says that does not name the task of the run."""
    done = run_command(*arguments, cwd=cwd)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("task", "folder"),
    [("brought:B-v0", "."), ("run.brought:B-v0", ".."), ("../task.toml", "..")],
)
def test_a_task_named_in_a_folder_is_not_imported(run, tmp_path, task, folder):
    """Wherever the module or the file lies that it means."""
    mark, module = tmp_path / MARK, task if ":" in task else "run.brought:B-v0"
    brought = f"open({str(mark)!r}, 'w').close()\nimport gymnasium, toys\ngymnasium.register('B-v0', toys.Toy)\n"
    (run / "brought.py").write_text(brought)
    (tmp_path / "task.toml").write_text(ACROBOT.read_text().replace('"Acrobot-v1"', f'"{module}"'))
    task = str((run / task).resolve()) if task.endswith(".toml") else task
    reconfigure(run, f'task = "{task}"', agreed=True)
    reopened(shutil.copytree(run, tmp_path / "open"))
    here = (run / folder).resolve()
    for asked in (
        ("verify", run),
        ("score", run, "--all-checkpoints"),
        ("finish", tmp_path / "open"),
    ):
        done = as_written(*asked, "--jobs", "1", cwd=here)
        assert f"add: --task {task}" in done, done
    assert "other settings" in as_written("serve", "core16/acrobot", "--run", run, cwd=here)
    assert "other settings" in as_written("verify", run, "--jobs", "1", "--task", "toys:Toy-v0", cwd=here)
    assert not mark.exists()
    command("verify", run, "--jobs", "1", "--task", task, cwd=here)
    assert mark.exists() != task.endswith(".toml")  # the control: a module that is given again is imported


@pytest.fixture
def measured_run(run, monkeypatch) -> Path:
    """A run of as many held-out cases as anchors are measured for, by its record."""
    monkeypatch.setattr(anchors, "LEAST_CASES", 1)
    monkeypatch.setenv("EVOPOLICYGYM_ANCHORS", str(run.parent / "anchors"))
    return run


def test_anchors_of_a_run_do_not_import_a_task_named_in_its_folder(measured_run, tmp_path, monkeypatch):
    """It was imported, and so ran with all rights, from the current folder."""
    mark = tmp_path / MARK
    (measured_run / "brought.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    reconfigure(measured_run, 'task = "run.brought:B-v0"', agreed=True)
    monkeypatch.chdir(measured_run.parent)
    monkeypatch.syspath_prepend(measured_run.parent)
    with pytest.raises(UserError, match="Nothing was imported"):
        evopolicygym.measure_missing_anchors(measured_run)
    assert not mark.exists()
    with pytest.raises(UserError):
        evopolicygym.measure_missing_anchors(measured_run, task="run.brought:B-v0")
    assert mark.exists(), "control: a module that is given again is imported"


def test_anchors_of_a_run_read_no_key_that_its_folder_names(measured_run, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOPOLICYGYM_SEAL_KEY_FILE", str(tmp_path / "absent"))  # other tests may have made a key
    secret = tmp_path / "secret"
    secret.write_text("no key")
    reconfigure(measured_run, 'seeds = "sealed"', f'seal_key = "{secret}"', agreed=True)
    for given, says in (({}, "cannot read the sealing key"), ({"seal_key": secret}, str(secret))):
        with pytest.raises(UserError, match=says) as raised:
            evopolicygym.measure_missing_anchors(measured_run, task=TOY, jobs=1, **given)
        assert given or str(secret) not in str(raised.value)


def test_anchors_are_measured_on_the_cases_of_the_run_alone(measured_run, tmp_path):
    (tmp_path / "other.key").write_text("5e" * 32)
    (tmp_path / "other.key").chmod(0o600)
    measured = evopolicygym.measure_missing_anchors(measured_run, jobs=1)
    assert measured and measured.task == TOY, "control"
    shutil.rmtree(tmp_path / "anchors")
    reconfigure(measured_run, 'seeds = "sealed"', agreed=True)
    with pytest.raises(UserError, match="scored on other cases than the key here draws"):
        evopolicygym.measure_missing_anchors(measured_run, task=TOY, seal_key=tmp_path / "other.key", jobs=1)
    assert not (tmp_path / "anchors").exists()


@pytest.mark.parametrize("name", ["env", "variant"])
def test_verify_names_a_fact_that_the_fingerprint_lacks(run, name):
    """A fingerprint without its environment was a traceback."""

    def change(data: dict[str, Any]) -> None:
        ids = data["facts"]["ids"]
        ids["fingerprint"] = {key: value for key, value in ids["fingerprint"].items() if key != name}
        ids["comparable_id"] = comparable_id(ids["fingerprint"])

    rewrite(run, change)
    report = findings(run)
    assert report["ledger"][0] and report["settings"][0]
    assert report["replay"][0] == (name != "env"), "control: no variant is the plain one"
    assert name != "env" or "the ledger says toys:Toy-v0 (None)" in report["replay"][1]


def test_verify_makes_no_sealing_key(run, tmp_path):
    reconfigure(run, 'seeds = "sealed"', agreed=True)
    home = {name: value for name, value in os.environ.items() if not name.startswith(("EVOPOLICYGYM", "XDG"))}
    done = command("verify", run, "--jobs", "1", env=home | {"HOME": str(tmp_path / "home")})
    assert done.returncode == 1 and "sealing key" in done.stdout
    assert not (tmp_path / "home").exists()


def test_a_sealing_key_named_in_a_folder_is_not_read(run, tmp_path):
    """Neither by verify, nor when a run of another installation is continued."""
    key = tmp_path / "secret"
    key.write_text("no key")
    reconfigure(run, 'seeds = "sealed"', f'seal_key = "{key}"', agreed=True)
    another = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "another")}
    for asked in (("verify", run), ("score", run, "--all-checkpoints")):
        done = command(*asked, "--jobs", "1", env=another)
        assert done.returncode in (1, 2) and str(key) not in done.stdout + done.stderr, done
        assert "sealing key" in done.stdout + done.stderr


def test_verify_makes_no_folder_for_checkpoints_that_are_missing(run):
    shutil.rmtree(run / "checkpoints")
    assert command("verify", str(run)).returncode == 1
    assert not (run / "checkpoints").exists()


LINKS = ("hidden", "logs", "feedback", "checkpoints", "logs/judge.log", "run.json", "ledger.jsonl", "config.toml")


@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_a_run_is_named(run, tmp_path, name):
    (run / name).rename(tmp_path / "outside")
    (run / name).symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match="is a link"):
        check_run_folder(run)
    assert not verify(run, 1, task=TOY).ok


@pytest.mark.parametrize("name", ["hidden", "logs/judge.log"])
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    """The record's hidden results would go there, and the judge's log."""
    outside = tmp_path / "outside"
    shutil.copytree(run / name, outside) if (run / name).is_dir() else outside.write_text("mine")
    kept = {path: path.lstat().st_mtime_ns for path in (outside, *outside.rglob("*"))}
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    (run / name).symlink_to(outside)
    done = command("score", run, "--all-checkpoints", "--jobs", "1")
    assert done.returncode == 2 and "is a link" in done.stderr, done.stderr
    assert {path: path.lstat().st_mtime_ns for path in (outside, *outside.rglob("*"))} == kept


@pytest.mark.parametrize("is_link", [False, True])
def test_no_starter_policy_is_written_through_a_link(tmp_path, is_link):
    """A folder in which no run has begun yet may be filled by a new one."""
    (tmp_path / "run" / "workspace").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "policy.py").write_text("mine")
    if is_link:
        (tmp_path / "run" / "workspace" / "system").symlink_to(tmp_path / "outside")
    done = command("run", TOY, "--agent", "starter", "--run", tmp_path / "run", "--seeds", "paper", "--budget", "1",
                   "--validation-cases", "1", "--heldout-cases", "1", "--jobs", "1")  # fmt: skip
    assert (done.returncode, "is a link" in done.stderr) == ((2, True) if is_link else (0, False)), done.stderr
    assert (tmp_path / "outside" / "policy.py").read_text() == "mine"


def test_a_pipe_in_place_of_the_disk_reserve_is_refused(run):
    """To open it for writing would wait for ever."""
    check_run_folder(run)
    os.mkfifo(run / ".reserve")
    with pytest.raises(UserError, match=r"\.reserve is neither a file nor a folder"):
        check_run_folder(run)


def test_a_checkpoint_that_is_a_link_is_not_played(run, tmp_path):
    winner = json.loads((run / "run.json").read_text())["outcome"]["checkpoint"]
    (run / "checkpoints" / winner).rename(tmp_path / "elsewhere")
    (run / "checkpoints" / winner).symlink_to(tmp_path / "elsewhere")
    report = verify(run, 1, task=TOY)
    assert report.replay is None and not report.ok


def test_a_run_without_a_hash_of_its_settings_is_verified(run):
    as_before(run)
    report = verify(run, 1, task=TOY)
    assert report.ok and report.replay is Replay.EQUAL


CLIENT = """
title = "A client"
program = "sh"
argv = ["${program}"]
credentials = ["../../../victim", "%s", "login"]
"""


def test_a_client_named_in_a_folder_removes_no_other_file(tmp_path):
    """When a run is finished its agent's logins are removed from the run; whoever wrote the folder says which."""
    home = tmp_path / "run" / "agent" / "home"
    home.mkdir(parents=True)
    victims = tmp_path / "victim", tmp_path / "other"
    for path in (*victims, home / "login"):
        path.write_text("mine")
    (tmp_path / "run" / "client.toml").write_text(CLIENT % victims[1])
    delete_credentials(RunPaths(tmp_path / "run"), str(tmp_path / "run" / "client.toml"))
    assert all(path.exists() for path in victims) and not (home / "login").exists()


def test_a_task_of_this_installation_is_imported_and_another_is_not(run, tmp_path):
    """Its task is code from outside: the signature in its ledger says who opened it with these settings."""
    verify_it = [*COMMAND, "verify", str(run), "--jobs", "1"]
    ours = subprocess.run(verify_it, capture_output=True, text=True)
    assert ours.returncode == 0 and "replay: equal" in ours.stdout
    another = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "another")}
    theirs = subprocess.run(verify_it, capture_output=True, text=True, env=another)
    assert theirs.returncode == 1 and "Nothing was imported" in theirs.stdout
