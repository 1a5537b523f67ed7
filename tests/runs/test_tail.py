"""`evopolicygym tail`: a run from outside, while it is played and afterwards, whatever its folder holds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from model_chats import APIS, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.cli.tail import tail_lines
from evopolicygym.errors import UserError
from evopolicygym.files import GrowingFile
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.run_paths import RECORDING
from evopolicygym.runs.tail import RunTail, TailEvent, follow_run
from server_helpers import COMMAND, SMALL, command

EXAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "acrobot__tuner__s0"


@pytest.fixture
def run(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "run")
    return tmp_path / "run"


def kinds(events):
    return [event.kind for event in events]


def test_a_finished_run_is_replayed_to_its_outcome(run):
    events = list(follow_run(run))
    record = json.loads((run / "run.json").read_text())
    verdicts = [event for event in events if event.kind == "verdict"]
    assert [event.data["mean"] for event in verdicts] == [
        submission["train"]["mean"] for submission in record["submissions"]
    ]
    assert events[0].kind == "opened" and events[-1].kind == "finished"
    assert events[-1].data["score"] == record["outcome"]["heldout"]["mean"]
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_a_growing_ledger_is_read_line_by_line_and_a_torn_line_when_it_is_complete(run):
    whole = (run / "ledger.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (run / "ledger.jsonl").write_bytes(lines[0] + lines[1] + lines[2] + lines[3][:20])
    tail = RunTail(run)
    first = tail.new_events()
    assert kinds(first)[0] == "opened" and not tail.new_events() and not tail.is_over
    with open(run / "ledger.jsonl", "ab") as file:
        file.write(b"".join([lines[3][20:], *lines[4:]]))
    rest = tail.new_events()
    assert rest[-1].kind == "finished" and tail.is_over
    assert kinds([*first, *rest]).count("submission") == kinds(list(follow_run(run))).count("submission")


def test_recorded_calls_are_shown_once_also_when_the_last_one_is_torn(run):
    with ScriptedModel(lambda history: "Done." if len(history) > 1 else "$ python3 submit.py 0-3") as model:
        chat = ModelChat(model, APIS[0], True)
        chat.prompt("Begin.")
    store = ExchangeStore(run, {})
    store.append(chat.exchanges[0])
    tail = RunTail(run)
    first = [event for event in tail.new_events() if event.kind in ("prompt", "does", "says", "result")]
    assert kinds(first)[:1] == ["prompt"] and any("submit.py 0-3" in event.text for event in first)
    before = (run / RECORDING).stat().st_size
    for exchange in chat.exchanges[1:]:
        store.append(exchange)
    store.close()
    whole = (run / RECORDING).read_bytes()
    (run / RECORDING).write_bytes(whole[: before + 30])
    assert tail.new_events() == []
    with open(run / RECORDING, "ab") as file:
        file.write(whole[before + 30 :])
    later = tail.new_events()
    assert "result" in kinds(later) and later[-1].text == "Done.", later


@pytest.mark.parametrize(
    "text",
    [b"not json\n", b'{"sequence": 0}\n', b'{"a":' * 5000 + b"\n", b"\xff\xfe\n", b"\n" * 100, b"x" * (9 << 20)],
)
def test_lines_of_a_hostile_ledger_are_notes(run, text):
    with open(run / "ledger.jsonl", "ab") as file:
        file.write(text)
    events = RunTail(run).new_events()
    assert set(kinds(events)) >= {"opened", "finished"}
    (run / "ledger.jsonl").write_bytes(text)
    assert set(kinds(RunTail(run).new_events())) <= {"note"}


def test_a_file_of_blank_lines_is_no_ledger(run):
    """Each would be a note: a few megabytes would print gigabytes."""
    (run / "ledger.jsonl").write_bytes(b"\n" * 100_000)
    events = follow_run(run, follow=False)
    with pytest.raises(UserError, match="more than 100 lines"):
        list(events)


def test_a_mean_of_no_episodes_is_a_note(run):
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    for line in lines:
        if "tally" in line["data"]:
            line["data"]["tally"] = {"returns": [], "lengths": [], "errors": []}
    (run / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    events = list(follow_run(run, follow=False))
    assert any("makes no sense" in event.text for event in events) and events[-1].kind == "finished"


def test_links_are_not_followed_and_a_replaced_file_is_read_anew(tmp_path):
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "some").symlink_to(tmp_path / "secret")
    growing = GrowingFile(tmp_path, "some", 1000)
    assert growing.lines() == []
    (tmp_path / "some").unlink()
    (tmp_path / "some").write_text("one\ntwo\nthr")
    assert growing.lines() == [b"one", b"two"] and growing.lines() == []
    (tmp_path / "some").write_text("new\n")
    assert growing.lines() == [b"new"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_ledger_that_is_not_a_plain_file_is_an_error(run, kind):
    (run / "ledger.jsonl").rename(run / "other")
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: os.symlink("other", path)}[kind](run / "ledger.jsonl")
    with pytest.raises(UserError, match="not a plain file"):
        list(follow_run(run))


def test_a_long_output_is_read_whole_but_for_its_longest_lines(run):
    """A line that is too long once hid all that an agent printed after it."""
    lines = [b"x" * (20 << 20), *[b"a" * (3 << 20)] * 6, b"the end"]
    (run / "logs" / "agent").mkdir(parents=True, exist_ok=True)
    (run / "logs" / "agent" / "turn_001.out").write_bytes(b"\n".join(lines))
    texts = [event.text for event in follow_run(run) if event.kind == "prints"]
    assert texts[-1] == "the end" and sum(text.startswith("aaa") for text in texts) == 6


def test_what_an_agent_printed_comes_before_the_outcome_also_when_it_is_read_later(run):
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (run / "logs" / "agent").mkdir(parents=True, exist_ok=True)
    (run / "logs" / "agent" / "turn_001.out").unlink(missing_ok=True)
    (run / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    tail = RunTail(run)
    tail.new_events()
    (run / "logs" / "agent" / "turn_001.out").write_bytes(b"the agent's last words\n")
    (run / "ledger.jsonl").write_bytes(b"".join(lines))
    assert kinds(tail.new_events()) == ["prints", "finished"]
    (run / "logs" / "agent" / "turn_001.out").write_bytes((b"a" * (3 << 20) + b"\n") * 6)  # more than one look reads
    events = list(follow_run(run))
    assert kinds(events).count("prints") == 6 and events[-1].kind == "finished"


def test_texts_of_a_forged_ledger_are_bounded(run):
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    lines[0]["data"]["facts"]["agent"]["name"] = "\x1b[2J" * 100_000
    for line in lines:
        if line["kind"] == "closed":
            line["data"]["reason"] = "y" * 1_000_000
    (run / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    events = list(follow_run(run))
    assert {"opened", "closed", "finished"} <= set(kinds(events))
    assert all(len(json.dumps(asdict(event))) < 500_000 for event in events)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_fits_and_is_plain_text(width):
    hostile = "\x1b[2J word " * 40 + "\n\r\u202e" + "x" * 300
    for kind in ("says", "does", "result", "note", "verdict"):
        lines = list(tail_lines(TailEvent(1e18, kind, hostile, "\x1b[31mBash"), width))
        assert all(len(line) <= width and line.isprintable() for line in lines), lines


def test_without_following_a_missing_run_is_an_error(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        list(follow_run(tmp_path / "none", follow=False))


def test_a_run_is_followed_from_before_it_begins_to_its_end(tmp_path):
    root = tmp_path / "run"
    following = subprocess.Popen([*COMMAND, "tail", str(root), "--json"], stdout=subprocess.PIPE, text=True)
    done = command("run", "toys:Toy-v0", "--agent", "starter", "--run", root, "--seeds", "paper", *SMALL)
    output, _ = following.communicate(timeout=120)
    events = [json.loads(line) for line in output.splitlines()]
    assert done.returncode == 0 and following.returncode == 0, done.stderr
    assert (
        events[0]["kind"] == "opened" and events[-1]["kind"] == "finished" and events[-1]["data"]["score"] is not None
    )


def test_ctrl_c_ends_the_command_quietly(tmp_path):
    waiting = subprocess.Popen(
        [*COMMAND, "tail", str(tmp_path / "none")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("waiting for a run in")
    os.kill(waiting.pid, signal.SIGINT)
    output, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, output, errors) == (130, "", "")
