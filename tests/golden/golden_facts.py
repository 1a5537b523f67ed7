"""Compute the content of each golden file from the code as it is now. ``FACTS`` lists them by file name."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from golden_files import bare_schema, masked

import evopolicygym
from command_server import run_command
from conftest import TESTS, policy_source
from evopolicygym import run_paths
from evopolicygym.agents.definitions import Client
from evopolicygym.agents.failures import FailureKind
from evopolicygym.agents.prices import Price
from evopolicygym.agents.usage import Usage
from evopolicygym.analysis.edits import kinds
from evopolicygym.analysis.edits.kinds import SizeClass
from evopolicygym.analysis.leaderboard import task_results
from evopolicygym.analysis.leaderboard.build import PaperRows
from evopolicygym.analysis.loading import SkipKind
from evopolicygym.judge.judge import Videos
from evopolicygym.judge.protocol import Reason, Verdict
from evopolicygym.judge.state import RunPhase
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import OutcomeKind, Repeat, RunStatus
from evopolicygym.runs import workspace
from evopolicygym.runs.agent.limits import AgentLimits
from evopolicygym.runs.open_run import run_ids
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.settings import EngineName, IsolationChoice, RunSettings, Seeds, ValidateWhen
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.network import ProxyTraffic
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.suites import status
from evopolicygym.suites.file import Suite
from evopolicygym.suites.slot_pool import MESSAGE_KINDS
from evopolicygym.tasks.ids import ids
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.splits import SIZES, PaperSplits, SealedSplits, Split, Splits, cases
from evopolicygym.tasks.task import Task
from server_helpers import SMALL, Server

REPOSITORY = TESTS.parent
SAMPLE = "examples/runs"
SOURCE = Path(evopolicygym.__file__).parent
SEALING_KEY = b"golden sealing key of 32 letters"
# Of run.json: what follows from time, machine, chance or version.
RUN_VARIES = (
    *("/evopolicygym", "/id", "/ids/bit_id", "/ids/machine/*", "/randomness_salt", "/ledger_head"),
    *("/isolation/policy", "/isolation/agent", "/isolation/*_residues", "/isolation/publishable"),
    *("/submissions/*/*_at", "/submissions/*/wall_s", "/turns/*/wall_s", "/usage/wall_s"),
    *("/times/opened", "/times/closed", "/times/finished", "/times/*_s"),
)
# Of what a served run answers and writes: the same, and prose.
SERVED_VARIES = (
    "*/message",
    "*/wall_time_s",
    "*/wall_s",
    "*_cpu_s/*",
    "*_cpu_ms/*",
    "*/api",
    "/files/.door.json",
    "/files/config/jobs",
)
OPENAPI_VARIES = ("/servers", "/info/title")
EVALUATION_VARIES = (
    *("/bit_id", "/randomness_salt", "/isolation", "/fingerprint/on"),
    *("/wall_s", "/steps_per_s", "/episodes/*_s"),
)
# An agent that says which variables it has, and submits once.
AGENT = """
import os, subprocess, sys
print(*sorted(name for name in os.environ if name.startswith("EVOPOLICYGYM_") or name == "GOLDEN"), flush=True)
subprocess.run([sys.executable, "submit.py", "0-1"], check=True)
"""
FEW_CASES = ("--budget", "4", "--validation-cases", "1", "--heldout-cases", "2", "--seeds", "paper")
SECOND_TASK = "core16/mountain-car-continuous"
SUITE = """
tasks = ["core16/acrobot"]
splits = {seeds = "paper", validation_cases = 1, heldout_cases = 2}
defaults = {budget = 2}
[agents.starter]
[agents.second]
name = "nop"
turns = 1
"""
CRASH = policy_source(act="raise ValueError('golden')")


def output(*arguments: str, **environment: str) -> Any:
    """Return what a command prints as JSON."""
    done = run_command(*arguments, cwd=REPOSITORY, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def comparable_ids(_: Path) -> Any:
    """Return the ids of every task of Core16: by task and splits alone, as `evaluate` has them, and of runs. At the
    full text ids are as they were before there was a choice of text."""
    tasks = core16().values()
    return {
        "task": {task.id: ids(task, "paper").comparable_id for task in tasks},
        "run with the default text": _run_ids(),
        "run": _run_ids(text="full"),
        "run with another budget and a limit on candidates": _run_ids(text="full", budget=64, max_candidates=4),
    }


def _run_ids(**options: Any) -> dict[str, str]:
    return {
        task.id: run_ids(task, PaperSplits(), RunSettings.make(task=task.id, seeds="paper", **options))["comparable_id"]
        for task in core16().values()
    }


def splits(_: Path) -> Any:
    """Return the first seeds of each split, and a hash of all; with a salt also the keys of policies' randomness."""
    all_splits: tuple[Splits, ...] = (PaperSplits(), SealedSplits(SEALING_KEY))
    return {made.id: {split: _split_facts(made, split) for split in Split} for made in all_splits}


def _split_facts(made: Splits, split: Split) -> dict[str, Any]:
    listed = cases(made, "core16/acrobot", split, list(range(SIZES[split])))
    salted = cases(made, "core16/acrobot", split, [0], salt="5" * 64)
    return {
        "size": len(listed),
        "first": [case.seed for case in listed[:3]],
        "all": hashlib.sha256(json.dumps([case.seed for case in listed]).encode()).hexdigest(),
        "randomness": [case.randomness_key().hex() for case in (listed[0], *salted)],
    }


def run_record(scratch: Path) -> Any:
    """Return run.json of a small real run."""
    root = scratch / "run"
    output("run", "core16/acrobot", "--agent", "starter", "--run", str(root), *FEW_CASES, "--json")
    return masked(json.loads((root / "run.json").read_text()), RUN_VARIES)


def command_record(scratch: Path) -> Any:
    """Return run.json of a command with settings of its own, its variables, and config.toml."""
    root, program = scratch / "run", scratch / "mine" / "agent.py"
    program.parent.mkdir()
    program.write_text(AGENT)
    own = ["--seed", "3", "--agent-env", "GOLDEN", "--agent-host", "golden.invalid", "--max-turns", "1"]
    output("run", SECOND_TASK, "--agent", "command", "--run", str(root), *FEW_CASES, *own, "--max-candidates", "2",
           "--json", "--", "python3", str(program), GOLDEN="1")  # fmt: skip
    config = tomllib.loads((root / "config.toml").read_text())
    return {
        "run.json": masked(json.loads((root / "run.json").read_text()), RUN_VARIES),
        "config.toml": masked(config, ("/jobs", "/agent/command")),
        "variables": (root / "logs/agent/turn_001.out").read_text().splitlines()[0].split(),
    }


def samples(_: Path) -> Any:
    """Return all numbers that analysis computes of the sample runs. tests/report/test_example_runs.py verifies them."""
    rows = evopolicygym.analyze(REPOSITORY / SAMPLE).rows()
    return {
        "analyze": output("analyze", SAMPLE, "--json"),
        "leaderboard": _leaderboard(),
        "leaderboard --paper": _leaderboard("--paper"),
        "compare": output("compare", SAMPLE, "--json"),
        "load_runs": [row | {"folder": Path(row["folder"]).name} for row in rows],
    }


def _leaderboard(*options: str) -> Any:
    """Return the leaderboard without exchange rates: every learning curve that ships adds to those."""
    made = output("leaderboard", SAMPLE, *options, "--json")
    return made | {"boards": [{**board, "exchange_rates": []} for board in made["boards"]]}


def served(scratch: Path) -> Any:
    """Return requests and answers of a served run from start to end, and the files that it leaves."""
    server = Server(scratch / "run", *SMALL, "--budget", "8", task=SECOND_TASK)
    try:
        answers = _answers(server)
        _, openapi = server.call("GET", "/openapi.json")
        record = server.finish()
    finally:
        server.close()
    _drop_prose(openapi)
    facts = {"answers": answers, "files": _files(server.root), "outcome": record["outcome"]}
    return masked(facts, SERVED_VARIES) | {"openapi": masked(openapi, OPENAPI_VARIES)}


def _answers(server: Server) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "GET /info": server.call("GET", "/info"),
        "POST /submit": server.submit([0, 1]),
        "POST /submit, a case that is not there": server.submit([5000]),
        "POST /submit, unknown field": server.call("POST", "/submit", {"no_such_field": 1}),
        "GET /submissions/submit_001": server.call("GET", "/submissions/submit_001"),
        "GET /submissions/submit_009": server.call("GET", "/submissions/submit_009"),
        "POST /finalize": server.call("POST", "/finalize", {}),
        "GET /nothing": server.call("GET", "/nothing"),
    }
    door = json.loads((server.workspace / "door.json").read_text())
    server.policy(CRASH)
    asked["POST /submit, a policy that fails"] = server.submit([2], idempotency_key="golden-key-1")
    asked["POST /submit, the key again"] = server.submit([3], idempotency_key="golden-key-1")
    asked["GET /task"] = [server.call("GET", "/task")[0]]
    return {name: list(answer) for name, answer in asked.items()} | {"door.json": door}


def _drop_prose(node: Any) -> None:
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _drop_prose(value)
    if isinstance(node, dict):
        for name in [name for name in ("summary", "description") if isinstance(node.get(name), str)]:
            del node[name]


def _files(root: Path) -> dict[str, Any]:
    listed = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    trajectory = (root / "feedback/submit_001/episodes/ep_000/trajectory.jsonl").read_text().splitlines()
    return {
        "names": sorted(re.sub(r"\b[0-9a-f]{64}\b", "HASH", name) for name in listed),
        "config": tomllib.loads((root / "config.toml").read_text()),
        ".door.json": json.loads((root / ".door.json").read_text()),
        "workspace/door.json": json.loads((root / "workspace/door.json").read_text()),
        "summary.json": json.loads((root / "feedback/submit_002/summary.json").read_text()),
        "trajectory.jsonl": [json.loads(trajectory[0]), json.loads(trajectory[-1])],
        "hidden": {path.name: json.loads(path.read_text()) for path in sorted((root / "hidden").iterdir())},
    }


def suite(scratch: Path) -> Any:
    """Return the plan, the output and the files of a suite of two runs."""
    file, root = scratch / "golden.toml", scratch / "suite"
    file.write_text(SUITE)
    words = ("suite", "run", str(file), "--folder", str(root), "--json")
    plan = output(*words, "--dry-run")
    return {
        "plan": masked(plan, ("*/core_hours", "*/checks/*/detail", "*/checks/*/remedy", "*/checks/4/name")),
        "suite.json": masked(output(*words), ("*/began_at", "*/ended_at", "*/periods", "/totals/*_s")),
        "suite.toml": tomllib.loads((root / "suite.toml").read_text()),
        "names": sorted(str(path.relative_to(root)) for pattern in ("*", "*/*") for path in root.glob(pattern)),
    }


def evaluation(scratch: Path) -> Any:
    """Return the output of `evaluate --json` for one task."""
    (scratch / "policy.py").write_text(policy_source(act="return 1"))
    printed = output("evaluate", str(scratch), "core16/acrobot", "--cases", "0-1", "--seeds", "paper", "--json")
    return masked(printed, EVALUATION_VARIES)


def settings_keys(_: Path) -> Any:
    """Return the keys of the files that people write, and of config.toml, with types and defaults."""
    config = RunSettings.model_json_schema()
    config["properties"]["jobs"].pop("default")  # as many as there are cores
    return {
        "suite file": bare_schema(Suite.model_json_schema()),
        "agent file": bare_schema(Client.model_json_schema()),
        "task file": bare_schema(msgspec.json.schema(Task)),
        "config.toml": bare_schema(config),
        "price": bare_schema(Price.model_json_schema()),
    }


def names(_: Path) -> Any:
    """Return the names that are on disk or on the wire and in no schema above."""
    texts = [path.read_text() for path in SOURCE.rglob("*") if path.suffix in (".py", ".toml", ".md", ".json")]
    everything = AgentLimits(turns=1, hours=1.0, tokens=1, dollars=1.0)
    return {
        "variables in the source": sorted({name for text in texts for name in re.findall(r"EVOPOLICYGYM_\w+", text)}),
        "variables of an agent": workspace.agent_environment(RunPaths(Path("/run")), "http://127.0.0.1:1/token"),
        "files of a run": [*run_paths.FILES, *run_paths.FOLDERS],
        "usage of a turn": asdict(Usage()),
        "traffic of an agent": [column.name for column in fields(ProxyTraffic)],
        "row of a suite": [column.name for column in fields(status.SuiteRow)],
        "limits of an agent": [limit.name for limit in everything.limits([])],
        "messages of a suite": sorted(MESSAGE_KINDS),
        "words": {name: [str(word) for word in kind] for name, kind in VOCABULARIES.items()},
    }


VOCABULARIES: dict[str, type[StrEnum]] = {
    "verdict of a submission": Verdict,
    "refusal of a request": Reason,
    "error of an episode": ErrorKind,
    "failure of a turn": FailureKind,
    "status of a run": RunStatus,
    "status of a run of a suite": status.SuiteRunStatus,
    "phase of a run": RunPhase,
    "outcome of a run": OutcomeKind,
    "repeat of held-out": Repeat,
    "replay of verify": Replay,
    "isolation of policies": Level,
    "isolation of agents": AgentLevel,
    "isolation asked for": IsolationChoice,
    "network of agents": NetworkAccess,
    "split": Split,
    "seeds": Seeds,
    "engine": EngineName,
    "validate_when": ValidateWhen,
    "video": Videos,
    "kind of edit": kinds.EditKind,
    "size of an edit": SizeClass,
    "kind of entrant": task_results.EntryKind,
    "rows of the paper": PaperRows,
    "why a folder is skipped": SkipKind,
}
FACTS: dict[str, Callable[[Path], Any]] = {
    "comparable_ids": comparable_ids,
    "splits": splits,
    "run": run_record,
    "command_run": command_record,
    "samples": samples,
    "served": served,
    "suite": suite,
    "evaluation": evaluation,
    "settings_keys": settings_keys,
    "names": names,
}
