"""The commands as processes: exit codes, data on stdout, messages on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from blocked_syscalls import run_with_blocked
from command_server import COMMAND
from command_server import run_command as run
from conftest import policy_source, write_policy
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.api.machine import HEALTH, MachineReport
from evopolicygym.cli.doctor import exit_code
from evopolicygym.execution import machine_checks
from evopolicygym.execution.machine_checks import _exposure, import_errors, policy_level
from evopolicygym.sandbox.agent.visible_files import Exposure
from evopolicygym.sandbox.probes import Probe
from evopolicygym.tasks import pins, simulator

PAPER = ("--seeds", "paper")
EXAMPLE = Path(__file__).parents[2] / "examples" / "acrobot"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def test_evaluate_prints_data_for_scripts(home):
    done = run(
        "evaluate", EXAMPLE, "core16/acrobot", "--split", "heldout", "--seeds", "paper", "--cases", "0-5,2", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [episode["case"] for episode in report["episodes"]] == [0, 1, 2, 3, 4, 5, 2]
    assert report["episodes"][2]["score"] == report["episodes"][6]["score"]
    assert report["splits_id"] == "paper"
    assert report["isolation"] == {"level": "A", "publishable": True}
    assert report["mean"] > -150
    assert report["failed"] == 0
    assert report["comparable_id"].startswith("c-")
    assert report["fingerprint"]["packages"]["gymnasium"] == "1.4.0"
    assert "seed" not in done.stdout.replace("seeds", "")
    assert (home / "evopolicygym" / "seal.key").exists()  # the salt follows from it, also for public cases


def test_evaluate_prints_a_table_for_people():
    done = run("evaluate", EXAMPLE, "Acrobot-v1", "--split", "heldout", "--seeds", "paper")
    assert done.returncode == 0, done.stderr
    assert "failed       0 of 32 episodes" in done.stdout
    assert "paper        on these cases: random -499.2, best agent (GPT-5.5) -84.69" in done.stdout
    assert "level A" in done.stdout


def test_paper_rows_are_labelled_when_the_cases_are_others(home):
    done = run("evaluate", EXAMPLE, "core16/acrobot", "--cases", "0-1")
    assert "on OTHER cases" in done.stdout
    assert "train cases of sealed:" in done.stdout
    assert (home / "evopolicygym" / "seal.key").stat().st_mode & 0o777 == 0o600


def test_a_part_of_the_papers_cases_is_not_called_other_cases():
    done = run("evaluate", EXAMPLE, "core16/acrobot", "--split", "heldout", "--seeds", "paper", "--cases", "0-1")
    assert "paper        on all 32 cases of this list, not on these 2 alone, not comparable: random" in done.stdout


@pytest.mark.parametrize(
    ("budget", "cases", "words"), [("1", "0", "case 0"), ("4", "0-3", "0 to 3 (4"), ("9", "0-7", "0 to 7 (8")]
)
def test_the_first_submission_that_serve_proposes_fits_the_budget(tmp_path, budget, cases, words):
    few = ("--budget", budget, "--validation-cases", "1", "--heldout-cases", "1", "--seeds", "paper", "--jobs", "1")
    arguments = [*COMMAND, "serve", "toys:Toy-v0", "--run", str(tmp_path / "run"), *few]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        hint = next(line for line in server.stderr if "submit.py" in line)
        meaning = next(server.stderr)
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
    assert hint.endswith(f"submit.py {cases}\n") and words in meaning
    instructions = (tmp_path / "run/workspace/AGENTS.md").read_text()
    assert f"python3 submit.py {cases:12}# submit system/ for train case" in instructions and words in instructions


def test_counts_of_one_are_singular():
    assert [pluralize(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_doctor_lists_simulators_alone():
    (hidden, _), (shown, _) = (
        [
            probe.detail
            for probe in _exposure(Exposure(hidden=("/usr/lib/p",), hidden_simulators=names, seen=(), unsearched=()))
        ]
        for names in ((), ("/usr/lib/p/gymnasium",))
    )
    assert hidden == "1 place with packages; simulators there: none"
    assert shown == "1 place with packages; simulators there: /usr/lib/p/gymnasium"


def test_a_failing_policy_is_a_result(tmp_path):
    folder = write_policy(tmp_path / "p", policy_source(act="if obs[4] > 0.1: raise ValueError('too fast')\nreturn 2"))
    done = run("evaluate", folder, "core16/acrobot", "--seeds", "paper", "--cases", "0-3")
    assert done.returncode == 0
    assert "ValueError: too fast" in done.stdout
    assert 'File "policy.py", line 10, in act' in done.stdout
    assert "-500.0000" in done.stdout


@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        (None, "missing_policy", "no file policy.py"),
        ("x = ", "import_error", "SyntaxError"),
        ("x = 1", "import_error", "defines no class Policy"),
        (policy_source(top="import gymnasium"), "denied_import", "ModuleNotFoundError: No module"),
        ("class Policy:\n    def reset(self, i): pass", "init_error", "no method act"),
        ("class Policy:\n    def __init__(self): pass\n    def reset(self, i): pass\n    def act(self, o): pass",
         "init_error", "must accept (obs_space, action_space, env_meta)"),
    ],
)  # fmt: skip
def test_a_policy_that_does_not_load(tmp_path, source, kind, says):
    folder = tmp_path / "p"
    folder.mkdir()
    if source is not None:
        write_policy(folder, source)
    done = run("evaluate", folder, "core16/acrobot", "--seeds", "paper", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["kind"] == kind
    assert says in done.stderr
    assert 'Traceback (most recent call last):\n  File "/' not in done.stderr


def test_output_of_a_policy_that_does_not_load_is_shown(tmp_path):
    top = "print('hello'); print('oh', file=sys.stderr); 1 / 0"
    folder = write_policy(tmp_path / "p", policy_source(top=top))
    report = json.loads(run("evaluate", folder, "core16/acrobot", *PAPER, "--json").stdout)
    assert (report["loaded"], report["stdout"], report["stderr"]) == (False, "hello\n", "oh\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluate", EXAMPLE, "core16/acrobat"], "Did you mean core16/acrobot"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--cases", "1024"], "there are cases 0 to 1023"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--cases", "x"], "'x' is not a case"),
        (["evaluate", "/nowhere", "core16/acrobot"], "/nowhere is not a folder"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--video"], "Name a folder for recordings with --record"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--record", "/proc/x"], "cannot write to /proc/x"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--record", EXAMPLE], "is not empty"),
        (["evaluate", EXAMPLE, "core16/acrobot", "--seal-key", "/nowhere"], "cannot read the sealing key /nowhere"),
        (["task", "show", "Acrobot-v2"], "there is no task"),
        (["seeds", "new", "--out", "/proc/x"], "cannot write the sealing key"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_a_remedy(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_links_in_a_policy_folder_are_refused(tmp_path):
    folder = write_policy(tmp_path / "p", policy_source())
    (folder / "data").symlink_to("/etc")
    done = run("evaluate", folder, "core16/acrobot", "--seeds", "paper")
    assert done.returncode == 2
    assert "data is a symbolic link" in done.stderr


def test_recording(tmp_path):
    done = run(
        "evaluate",
        EXAMPLE,
        "core16/acrobot",
        "--seeds",
        "paper",
        "--cases",
        "0-1",
        "--record",
        tmp_path / "r",
        "--video",
    )
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(tmp_path / "r")) for path in (tmp_path / "r").rglob("*.*")) == [
        "ep_000/episode.npz", "ep_000/trajectory.jsonl", "ep_000/video.mp4",
        "ep_001/episode.npz", "ep_001/trajectory.jsonl", "ep_001/video.mp4",
    ]  # fmt: skip


def test_a_recording_that_ends_early_says_so_to_people(tmp_path):
    folder = write_policy(tmp_path / "p", policy_source())
    done = run("evaluate", folder, "toys:Vast-v0", *PAPER, "--cases", "3", "--record", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert "recorded     not in full: 1 of 1 episodes (case 3: the trajectory ends before step 3" in done.stdout


def test_a_recording_is_no_part_of_the_policy(tmp_path):
    folder = write_policy(tmp_path / "p", policy_source())
    (tmp_path / "link").symlink_to(folder)
    for inside in (folder / "rec", folder / "far" / "in", tmp_path / "link" / "rec"):
        done = run("evaluate", folder, "core16/acrobot", *PAPER, "--cases", "0", "--record", inside)
        assert done.returncode == 2
        assert "lies in the policy's folder" in done.stderr and f"that is not in {folder}" in done.stderr
        assert [path.name for path in folder.iterdir()] == ["policy.py"]


def test_where_namespaces_are_refused_level_b_is_used(tmp_path):
    arguments = ["evaluate", str(EXAMPLE), "core16/acrobot", "--seeds", "paper", "--cases", "0-1", "--json"]
    done = run_with_blocked(["unshare"], [*COMMAND, *arguments])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["isolation"] == {"level": "B", "publishable": True}
    asked = run_with_blocked(["unshare"], [*COMMAND, *arguments, "--isolation", "A"])
    assert asked.returncode == 3
    assert "level A: unshare: Operation not permitted" in asked.stderr
    assert "evopolicygym doctor" in asked.stderr


def test_a_root_that_is_the_only_user_there_is_has_level_b():
    arguments = ["evaluate", str(EXAMPLE), "core16/acrobot", "--seeds", "paper", "--cases", "0-1", "--json"]
    alone = ["unshare", "--user", "--map-root-user", *COMMAND, *arguments]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["isolation"] == {"level": "B", "publishable": True}
    asked = subprocess.run([*alone, "--isolation", "A"], capture_output=True, text=True, timeout=120)
    assert asked.returncode == 3
    assert "level A: root cannot become another user here" in asked.stderr


@pytest.mark.parametrize("calls", [["unshare", "landlock"], ["seccomp"]])
def test_without_any_isolation_nothing_runs(calls):
    arguments = ["evaluate", str(EXAMPLE), "core16/acrobot", "--seeds", "paper", "--cases", "0-1"]
    done = run_with_blocked(calls, [*COMMAND, *arguments])
    assert done.returncode == 3
    assert "level A" in done.stderr
    assert "level B" in done.stderr
    assert "--isolation none" in done.stderr
    assert done.stdout == ""


def test_no_isolation_needs_an_option_and_is_recorded():
    done = run(
        "evaluate", EXAMPLE, "core16/acrobot", "--seeds", "paper", "--cases", "0", "--isolation", "none", "--json"
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["isolation"] == {"level": "none", "publishable": False}
    assert "not publishable" in done.stderr


def test_a_fault_of_the_judge_gives_no_score(tmp_path):
    folder = write_policy(tmp_path / "p", policy_source())
    environment = os.environ | {"TOY_MARKER": str(tmp_path / "marker")}
    done = run("evaluate", folder, "toys:Flaky-v0", "--seeds", "paper", "--cases", "0-2", "--json", env=environment)
    assert done.returncode == 4
    report = json.loads(done.stdout)
    assert len(report["episodes"]) == 2
    assert "but not when the episode was repeated" in report["faults"][0]["text"]
    assert "1 of 3 episodes have no score" in done.stderr


def test_task_list_and_show():
    rows = json.loads(run("task", "list", "--json").stdout)
    assert [row["id"].partition("/")[0] for row in rows] == ["core16"] * 16 + ["novel"] * 16
    assert rows[0]["observation"] == "Box(6,) float32"
    text = run("task", "show", "core16/car-racing").stdout
    assert text.startswith("# core16/car-racing")
    facts = json.loads(run("task", "show", "core16/ant", "--text", "full", "--json").stdout)
    assert facts["contract"].startswith("# Ant: run")
    assert len(facts["obs_space"]["names"]) == 105
    assert facts["obs_space"]["low"] == "-inf"
    assert facts["limits"]["memory_mb"] == 2048


def test_task_check_finds_a_failure_return_that_pays(tmp_path):
    text = (Path(__file__).parents[2] / "src/evopolicygym/tasks/core16/acrobot.toml").read_text()
    (tmp_path / "generous.toml").write_text(text.replace("value = -500.0", "value = -100.0"))
    done = run("task", "check", tmp_path / "generous.toml", "--cases", "1")
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "crashing never pays" in done.stdout


def test_seeds(home):
    made = json.loads(run("seeds", "new", "--json").stdout)
    again = run("seeds", "new")
    assert again.returncode == 2
    assert "never overwritten" in again.stderr
    shown = json.loads(run("seeds", "disclose", "--json").stdout)
    assert shown["splits_id"] == made["splits_id"]
    assert bytes.fromhex(shown["key"]) == bytes.fromhex(Path(made["file"]).read_text())
    Path(made["file"]).chmod(0o644)
    assert "chmod 600" in run("seeds", "disclose").stderr


def test_names_with_brackets_are_printed_as_they_are(tmp_path):
    key = tmp_path / "[red]keys[" / "x].key"
    assert str(key) in run("seeds", "new", "--out", key).stdout


def test_an_invalid_key_file_is_named(tmp_path):
    """Whoever can read it."""
    (tmp_path / "notes.txt").write_text("a note\n")
    (tmp_path / "notes.txt").chmod(0o644)
    done = run("seeds", "disclose", "--file", tmp_path / "notes.txt")
    assert done.returncode == 2
    assert "hexadecimal digits" in done.stderr and "chmod" not in done.stderr


def test_doctor():
    done = run("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert report["level"] == "A"
    assert any("caches of files" in text for text in report["policy_residues"])
    assert not any("stat" in text for text in report["policy_residues"])
    assert len(report["simulators"]) == 16
    assert all(probe["ok"] for probe in report["rendering"]) == (simulator.opengl() is not None)
    agents = {probe["name"]: probe for probe in report["agents"]}
    assert "at any address" in agents["agent level B"]["detail"]
    assert "at any address" not in agents["agent level A"]["detail"]
    assert agents["simulators that agents see"]["ok"], agents


@pytest.mark.parametrize(
    ("works", "broken", "code"),
    [("A", (), 0), ("B", (), 0), ("", (), 3), ("AB", ("rendering", "agents"), 0), ("B", ("imports",), 1)],
)
def test_doctor_exits_with_0_also_when_level_a_alone_is_missing(works, broken, code):
    isolation = [Probe("user namespaces", "A" in works), *(Probe(f"level {level}", level in works) for level in "AB")]
    sections = {name: [Probe(name, name not in broken)] for name in (*HEALTH, "rendering", "agents")}
    assert exit_code(MachineReport({}, sections, policy_level(isolation), {})) == code


def test_doctor_names_what_is_missing_or_broken_and_its_remedy(tmp_path):
    """A missing layer leaves level B; errors of packages are repeated word for word."""
    (tmp_path / "minigrid.py").write_text("raise ImportError('no [/grid] here')")
    (tmp_path / "av.py").write_text("raise OSError('libavcodec.so.61: cannot open shared object file')")
    done = run_with_blocked(["unshare"], [*COMMAND, "doctor"], env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1, done.stderr
    words = " ".join(done.stdout.split())
    assert "no level A" in words and "level B works as it is" in words
    assert "isolation level B" in words and "(stat)" in words
    assert "no [/grid] here" in done.stdout
    assert "import av  OSError: libavcodec.so.61" in done.stdout
    assert f"pip install --force-reinstall av=={version('av')}" in done.stdout


def test_packages_that_crash_or_hang_their_process_are_named(tmp_path, monkeypatch):
    """And those after them are tried all the same."""
    for name, source in (("crashing", "import os; os.abort()"), ("hanging", "import time; time.sleep(10**6)")):
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "printing.py").write_text("print('imported [nonsense]'[9:], end='')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    errors = import_errors(["json", "crashing", "printing", "no_such_module"])
    assert errors["json"] == errors["printing"] == "" and "exit code -6" in errors["crashing"]
    assert "No module named 'no_such_module'" in errors["no_such_module"]
    monkeypatch.setattr(machine_checks, "IMPORT_TIMEOUT_S", 2.0)
    assert "did not end" in import_errors(["hanging"])["hanging"]


def test_every_requirement_is_known_by_its_module():
    modules = {name: pins.module_of(name) for name in pins.requirements()}
    assert len(modules) > 15 and modules["pygame-ce"] == "pygame" and modules["box2d"] == "Box2D"
    installed = packages_distributions()
    assert all(name in map(str.lower, installed[module]) for name, module in modules.items())


def test_a_command_whose_own_package_is_broken_names_it(tmp_path):
    (tmp_path / "pydantic.py").write_text("raise ImportError('no validation today')")
    done = run("run", "core16/acrobot", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 4 and "no validation today" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["msgspec", "gymnasium", "numpy"])
def test_a_policy_folder_is_never_on_the_judges_path(tmp_path, module):
    folder = write_policy(
        tmp_path / "p", policy_source(act="return 0"), **{module: "raise SystemExit('outside the jail')"}
    )
    command = [
        str(Path(sys.executable).with_name("evopolicygym")),
        "evaluate",
        ".",
        "core16/acrobot",
        *PAPER,
        "--cases",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert "outside the jail" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_is_not_a_failure_of_the_policy():
    command = " ".join([*COMMAND, "evaluate", str(EXAMPLE), "core16/acrobot", *PAPER, "--cases", "0-20", "| head -1"])
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.returncode in (0, 141)  # 0 when everything fitted into the pipe before the reader left
    assert "Traceback" not in done.stderr


def test_a_full_disk_for_the_output_is_named():
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "task", "show", "core16/acrobot"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_task_that_cannot_be_made_says_why(tmp_path):
    text = (Path(__file__).parents[2] / "src/evopolicygym/tasks/core16/acrobot.toml").read_text()
    (tmp_path / "gone.toml").write_text(text.replace("Acrobot-v1", "NoSuchEnvironment-v1"))
    done = run("evaluate", EXAMPLE, tmp_path / "gone.toml", *PAPER)
    assert done.returncode == 2
    assert "NoSuchEnvironment-v1 cannot be made" in done.stderr


def test_more_digits_than_an_index_has():
    done = run("evaluate", EXAMPLE, "core16/acrobot", "--cases", "9" * 5000)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
