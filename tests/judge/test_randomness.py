"""The random numbers of a policy depend on a secret salt: a policy cannot recognise public cases by them, and with the
record of a finished run every bit can be repeated."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import policy_source, toy_task, write_policy
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.judge.events import Opened
from evopolicygym.judge.ledger import START, line_hash, read
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.verify import verify
from evopolicygym.tasks.splits import SIZES, PaperSplits, Split, cases
from leak_search import folder_contents
from server_helpers import TOY, Server, command

TASK = "toys:Toy-v0"
RANDOM = policy_source(act="return int(np.random.default_rng().integers(3))")
RECOGNISED = 20  # ten steps of the action 2; the toy adds less than ten by luck


def with_a_public_table() -> str:
    """A policy that looks itself up in a list of all public cases, and plays well where it finds itself."""
    seeds = [PaperSplits().seed(TASK, split, index) for split, size in SIZES.items() for index in range(size)]
    keys = [hashlib.sha256(f"evopolicygym policy randomness|{TASK}|{seed}".encode()).hexdigest()[:16] for seed in seeds]
    key = 'os.urandom.__globals__["_stream"]._key.hex()[:16]'
    return policy_source(top=f"KNOWN = {set(keys)!r}\nKEY = {key}", act="return 2 if KEY in KNOWN else 0")


def ledger_salt(root: Path) -> str:
    opened = next(line for line, _ in read(root / "ledger.jsonl")).event()
    assert isinstance(opened, Opened)
    return opened.salt


def spellings(salt: str) -> list[bytes]:
    raw = bytes.fromhex(salt)
    return [salt.encode(), salt.upper().encode(), raw, base64.b64encode(raw)[:40], salt[:16].encode(), raw[:8]]


def shown(places: dict[str, bytes], salt: str) -> list[str]:
    return [name for name, content in places.items() if any(text in content for text in spellings(salt))]


def record(root: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((root / "run.json").read_text())
    return parsed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run on the paper's cases, killed and taken up again between two submissions of the same random policy."""
    server = Server(tmp_path_factory.mktemp("salted") / "run")
    server.policy(RANDOM)
    before = server.submit([0, 1])[1]["summary"]["returns"]
    server.kill()
    server.start()
    after = server.submit([0, 1])[1]["summary"]["returns"]
    server.policy(with_a_public_table())
    table = server.submit([0, 1])[1]["summary"]["returns"]
    files = {f"{parent}/{name}": Path(parent, name).read_bytes() for parent, _, names in os.walk(server.root)
             for name in names if name != "ledger.jsonl" and Path(parent, name).is_file()}  # fmt: skip
    seen = {"open": record(server.root), "files": files | folder_contents(server.workspace)}
    finished = server.finish()
    server.close()
    return seen | {"root": server.root, "finished": finished, "before": before, "after": after, "table": table}


@pytest.mark.parametrize(("salt", "is_recognised"), [("", True), ("5a" * 32, False)], ids=["control", "salted"])
def test_a_public_table_recognises_cases_without_a_salt_alone(tmp_path, salt, is_recognised):
    task, folder = toy_task(), write_policy(tmp_path / "policy", with_a_public_table())
    heldout = cases(PaperSplits(), TASK, Split.HELDOUT, [0, 1])
    with LocalEngine(task) as engine:
        report = evaluate_folder(engine, task, folder, heldout, "paper", salt_of=lambda _: salt)
    assert [score >= RECOGNISED for score in report.returns] == [is_recognised] * 2


def test_no_case_is_recognised_in_a_run(run):
    (checkpoint,) = [
        checkpoint
        for checkpoint in run["finished"]["checkpoints"]
        if checkpoint["validation"]["returns"][0] < RECOGNISED / 2
    ]
    assert max(run["table"] + checkpoint["validation"]["returns"]) < RECOGNISED / 2


def test_a_run_has_one_salt_also_after_a_crash(run):
    assert re.fullmatch("[0-9a-f]{64}", ledger_salt(run["root"]))
    assert run["before"] == run["after"]
    assert run["finished"]["outcome"]["repeat"] == "equal"


def test_the_salt_is_in_no_file_but_the_ledger_until_the_run_is_closed(run):
    salt = ledger_salt(run["root"])
    assert run["open"]["status"] == "open" and run["open"]["randomness_salt"] is None
    assert shown(run["files"], salt) == []
    assert run["finished"]["randomness_salt"] == salt
    assert shown({"run.json": (run["root"] / "run.json").read_bytes()}, salt)  # the control: the search finds it


def test_verify_and_evaluate_repeat_the_returns(run, tmp_path):
    root, salt = run["root"], run["finished"]["randomness_salt"]
    report = verify(root, 1, task=TOY)
    assert report.ok and report.replay is Replay.EQUAL, report
    winner = run["finished"]["outcome"]["checkpoint"]
    asked = (
        "evaluate",
        root / "checkpoints" / winner,
        TASK,
        "--split",
        "heldout",
        "--cases",
        "0-2",
        "--seeds",
        "paper",
    )
    printed = json.loads(command(*asked, "--json", "--salt", salt.upper()).stdout)
    assert [episode["score"] for episode in printed["episodes"]] == run["finished"]["outcome"]["heldout"]["returns"]
    assert printed["randomness_salt"] == salt


def test_the_control_another_salt_gives_other_returns(run, tmp_path):
    """Forged into the ledger, whose chain is made anew: `verify` plays by what the ledger says."""
    copy = tmp_path / "run"
    command_line = ["cp", "-r", str(run["root"]), str(copy)]
    assert os.spawnvp(os.P_WAIT, "cp", command_line) == 0
    previous, written = START, b""
    for _, raw in read(run["root"] / "ledger.jsonl"):
        line = json.loads(raw) | {"previous": previous}
        if line["kind"] == "opened":
            line["data"]["salt"] = "00" * 32
        forged = json.dumps(line, separators=(",", ":")).encode()
        previous, written = line_hash(forged), written + forged + b"\n"
    (copy / "ledger.jsonl").write_bytes(written)
    assert verify(copy, 1, task=TOY).replay is Replay.MISMATCH


def evaluate(folder: Path, *options: str, **environment: str) -> Any:
    asked = ("evaluate", folder, TASK, "--seeds", "paper", "--cases", "0-3", "--json", *options)
    return command(*asked, env=os.environ | {"EVOPOLICYGYM_SEAL_KEY": "ab" * 32} | environment)


def scores(done: Any) -> list[float]:
    assert done.returncode == 0, done.stderr
    return [episode["score"] for episode in json.loads(done.stdout)["episodes"]]


def test_evaluations_are_equal_with_the_same_sealing_key_alone(tmp_path):
    folder = write_policy(tmp_path / "policy", RANDOM)
    first = evaluate(folder)
    assert scores(first) == scores(evaluate(folder))
    assert scores(evaluate(folder, EVOPOLICYGYM_SEAL_KEY="cd" * 32)) != scores(first)


@pytest.mark.parametrize("salt", ["", "abc", "g" * 64, "a" * 63])
def test_an_invalid_salt_is_refused(tmp_path, salt):
    done = evaluate(write_policy(tmp_path / "policy", RANDOM), "--salt", salt)
    assert done.returncode == 2 and "64 hexadecimal digits" in done.stderr


def test_without_a_sealing_key_the_salt_is_new_and_printed(tmp_path):
    folder = write_policy(tmp_path / "policy", RANDOM)
    nowhere = {"EVOPOLICYGYM_SEAL_KEY": "", "EVOPOLICYGYM_SEAL_KEY_FILE": str(tmp_path)}  # a folder, no file
    done = evaluate(folder, **nowhere)
    (salt,) = re.findall("add --salt ([0-9a-f]{64})", done.stderr)
    assert json.loads(done.stdout)["randomness_salt"] == salt
    assert scores(evaluate(folder, "--salt", salt, **nowhere)) == scores(done)
