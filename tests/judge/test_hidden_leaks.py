"""Nothing hidden leaks: every case has unique numbers, the policy writes them wherever it can, and all that the agent
can see is searched for them. Train cases are the control: their numbers must be found."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicygym.tasks.splits import SealedSplits, Split
from leak_search import RecordingClient, encodings, folder_contents, places_with
from server_helpers import Server, command
from toys import canaries

KEY = bytes(range(7, 39))
SPLITS = SealedSplits(KEY)
TASK = "toys:Canary-v0"
SIZES = {Split.VALIDATION: 4, Split.HELDOUT: 5}
ACTION_BITS = 2048

SHOUTING = """
import base64, hashlib, os, resource, socket, struct, sys, urllib.parse

WORKSPACE, RUN, PORT, PATH = {workspace!r}, {run!r}, {port!r}, {path!r}
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = [WORKSPACE, WORKSPACE + "/feedback", WORKSPACE + "/system", RUN, HERE, "/", "/tmp", "/dev/shm", "/var/tmp"]


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.told = [obs_space, action_space, env_meta]

    def reset(self, episode_index):
        facts = os.stat(__file__)
        self.told += [episode_index, sorted(os.environ.items()), sys.argv, sys.path, os.getcwd(), os.listdir(HERE)]
        self.told += [facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_atime_ns, facts.st_nlink]
        self.told += [sorted(sys.modules), hash("salt")]
        self.told += [resource.getrlimit(number) for number in range(16)]

    def act(self, obs):
        seen = float(obs[1])
        shout(seen)
        if obs[0] == 1 and int(seen) % 3 == 0:
            raise RuntimeError(f"it was {{seen!r}}, that is {{struct.pack('<d', seen)!r}}")
        return [int.from_bytes(hashlib.sha256(repr(self.told).encode()).digest()[:4], "big") % 2048]


def shout(seen):
    spellings = [repr(seen), seen.hex(), str(int(seen)), f"{{seen:.9e}}", struct.pack("<d", seen).hex()]
    spellings.append(base64.b64encode(struct.pack(">d", seen)).decode())
    for text in spellings:
        print(text)
        print(text, file=sys.stderr)
        quietly(lambda: os.write(1, text.encode()))
        quietly(lambda: os.write(2, text.encode()))
        for folder in FOLDERS:
            name = f"{{folder}}/{{urllib.parse.quote(text, safe='')}}"
            quietly(lambda: open(name, "w").write(text))
            quietly(lambda: os.mkdir(name))
            quietly(lambda: os.symlink(text, name))
            quietly(lambda: os.setxattr(folder, "user.canary", text.encode()))
    quietly(lambda: os.utime(__file__, (seen % 1e9, seen % 1e9)))
    quietly(lambda: call_the_api(seen))


def call_the_api(seen):
    with socket.create_connection(("127.0.0.1", PORT), 1) as connection:
        head = f"POST {{PATH}}/submit HTTP/1.1\\r\\nHost: x\\r\\nIdempotency-Key: {{seen!r}}\\r\\n\\r\\n"
        connection.sendall(head.encode())


def quietly(deed):
    try:
        deed()
    except BaseException:
        pass
"""


@dataclass
class Played:
    """A run that is over, and all that its agent could see of it."""

    server: Server
    submissions: list[dict[str, Any]]
    ear: RecordingClient
    places: dict[str, bytes] = field(default_factory=dict)

    def hidden(self, split: Split) -> dict[str, Any]:
        results: dict[str, Any] = json.loads((self.server.root / "hidden" / f"{split}.json").read_text())
        return results


def shouting(server: Server, version: int) -> str:
    port, _, path = server.api.removeprefix("http://127.0.0.1:").partition("/")
    values = {"workspace": str(server.workspace), "run": str(server.root), "port": int(port), "path": f"/{path}"}
    return SHOUTING.format(**values) + f"# version {version}\n"


def open_run(serve: Callable[..., Server], folder: Path, *options: str) -> Server:
    key = folder / "seal.key"
    key.write_text(KEY.hex())
    key.chmod(0o600)
    cases = ("--validation-cases", str(SIZES[Split.VALIDATION]), "--heldout-cases", str(SIZES[Split.HELDOUT]))
    return serve(
        "--seeds",
        "sealed",
        "--seal-key",
        str(key),
        *cases,
        "--jobs",
        "1",
        *options,
        name=f"run{len(options)}",
        task=TASK,
    )


def ledger_kinds(server: Server) -> list[str]:
    lines = (server.root / "ledger.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines]


def ask_around(ear: RecordingClient) -> None:
    for path in (
        "/info",
        "/task",
        "/submissions/submit_001",
        "/submissions/submit_002",
        "/submissions/none",
        "/hidden",
    ):
        ear.ask("GET", path)


def finish_while_listening(server: Server, ear: RecordingClient) -> None:
    """Finish the run while the agent sends requests, until long after the API is closed."""
    over = threading.Event()

    def hammer() -> None:
        while not over.is_set():
            ask_around(ear)
            ear.ask("POST", "/submit", b'{"env_instances": "0-127"}')  # more than is left

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        server.finish()
        assert command("score", server.root, "--all-checkpoints", "--json").returncode == 0
    finally:
        over.set()
        thread.join()


def assert_only_closed(server: Server, before: dict[str, bytes]) -> None:
    """Check that no byte and no time stamp of the workspace changed since hidden scoring began."""
    after = folder_contents(server.workspace)
    assert after["door.json"] == b'{"closed": true}\n'
    last_change = max(path.stat().st_mtime for path in (server.workspace, server.workspace / "door.json"))
    assert last_change < first_hidden_s(server)
    for name in ("door.json", "door.json (about)", ". (about)"):
        after[name] = before[name]
    assert after == before


def first_hidden_s(server: Server) -> float:
    """Return the time of the first ledger line of hidden scoring."""
    lines = [json.loads(line) for line in (server.root / "ledger.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    hidden = [i for i in range(kinds.index("closed"), len(kinds)) if kinds[i] in ("validated", "selected")]
    return datetime.fromisoformat(lines[hidden[0]]["time"]).timestamp()


@pytest.fixture(scope="module")
def played(serve_for_all, tmp_path_factory) -> Played:
    """Play a run with the default, hidden scoring after its end."""
    server = open_run(serve_for_all, tmp_path_factory.mktemp("key"))
    ear = RecordingClient(server.api)
    server.policy(shouting(server, 1))
    shown = server.client("0-5")
    assert shown.returncode == 0, shown.stderr
    server.policy(shouting(server, 2))
    ear.ask("POST", "/submit", b'{"env_instances": [6, 7]}')
    ask_around(ear)
    before = folder_contents(server.workspace)
    finish_while_listening(server, ear)
    assert_only_closed(server, before)
    submissions = [json.loads(before[f"feedback/submit_00{number}/summary.json"]) for number in (1, 2)]
    places = before | ear.responses | {"submit.py": (shown.stdout + shown.stderr).encode()}
    return Played(server, submissions, ear, places)


def seeds(split: Split, count: int) -> list[int]:
    return [SPLITS.seed(TASK, split, index) for index in range(count)]


def test_no_hidden_number_reaches_the_agent(played):
    for split, count in SIZES.items():
        for index, seed in enumerate(seeds(split, count)):
            for value in (seed, *canaries(seed)):
                assert places_with(value, played.places) == [], (split, index)


def test_no_hidden_result_reaches_the_agent(played):
    """Returns, means and spreads of every checkpoint, and of the outcome."""
    results = [result for split in SIZES for result in played.hidden(split).values()]
    assert len(results) == 2 * len({submission["submit_id"] for submission in played.submissions})
    for result in results:
        for value in (*result["returns"], result["mean"], result["std"]):
            if value != -1e6:  # a failed episode scores this everywhere
                assert places_with(float(value), played.places) == [], value


def test_the_control_finds_the_numbers_of_train_cases(played):
    cases = {case for submission in played.submissions for case in submission["env_instances"]}
    raised = 0
    for case in cases:
        seen, paid = canaries(SPLITS.seed(TASK, Split.TRAIN, case))
        where = places_with(seen, played.places)
        assert any("trajectory.jsonl" in path for path in where) and any("episode.npz!" in path for path in where)
        assert any("stdout.txt" in path for path in where) and any("stderr.txt" in path for path in where)
        fails = int(seen) % 3 == 0
        raised += fails
        assert any("error.txt" in path for path in where) == fails
        assert fails or any("summary.json" in path for path in places_with(paid, played.places))
        assert any("submit.py" in path for path in places_with(seen if fails else paid, played.places)) or case in (
            6,
            7,
        )
    assert 0 < raised < len(cases)


def test_seeds_of_train_cases_do_not_reach_the_agent(played):
    for seed in seeds(Split.TRAIN, 8):
        assert places_with(seed, played.places) == []


def test_the_salt_of_the_run_does_not_reach_the_agent(played):
    """Neither it nor a part of it, as text or as bytes. The control finds it in the ledger, which no agent can read."""
    ledger = (played.server.root / "ledger.jsonl").read_bytes()
    salt = json.loads(ledger.splitlines()[0])["data"]["salt"]
    spellings = [part for whole in (salt.encode(), bytes.fromhex(salt)) for part in (whole[:12], whole[-12:])]
    assert len(salt) == 64 and spellings[0] in ledger
    assert [name for name, content in played.places.items() if any(part in content for part in spellings)] == []


def test_the_policy_did_fail_and_play_on_hidden_cases(played):
    """Otherwise nothing could have leaked."""
    errors = [error for split in SIZES for result in played.hidden(split).values() for error in result["errors"]]
    assert "act_error" in errors and None in errors


def test_a_policy_gets_the_same_inputs_in_every_split(played):
    """Its actions are a digest of all that it is told beside the observation; they are the last bits of the return.
    Its uid and its core are not among it: they are those of the worker, which plays cases of every split."""
    record = json.loads((played.server.root / "run.json").read_text())
    assert len(record["submissions"]) == len(played.submissions)
    for recorded in record["submissions"]:
        train = recorded["train"]["returns"]  # in the reply they are rounded
        hidden = [played.hidden(split)[recorded["checkpoint"]]["returns"] for split in SIZES]
        action_bits = [{int(value) % ACTION_BITS for value in returns if value > 0} for returns in (train, *hidden)]
        assert action_bits[0] == action_bits[1] == action_bits[2] and len(action_bits[0]) == 1


def test_the_api_was_closed_before_hidden_scoring(played):
    """The last response is from the open run."""
    kinds = ledger_kinds(played.server)
    assert kinds.index("closed") < kinds.index("validated")
    answers = [body for name, body in played.ear.responses.items() if name.endswith("/info")]
    assert answers and all(b'"remaining_budget":120' in body for body in answers)
    assert RecordingClient(played.server.api).ask("GET", "/info") is None


@pytest.mark.parametrize("value", [SPLITS.seed(TASK, Split.HELDOUT, 0), *canaries(SPLITS.seed(TASK, Split.HELDOUT, 0))])
def test_the_search_finds_what_is_planted(tmp_path, value):
    """Each encoding alone, between other bytes."""
    assert places_with(value, folder_contents(tmp_path)) == []
    for trace in encodings(value):
        assert places_with(value, {"file": b"before" + trace + b"after"})
    (tmp_path / f"x{value!r}y").mkdir()
    assert places_with(value, folder_contents(tmp_path))
    (tmp_path / f"x{value!r}y").rmdir()
    np.savez_compressed(tmp_path / "rows.npz", rows=np.full(500, value, float))
    assert places_with(float(value), folder_contents(tmp_path))
