"""How runs end, and what `verify` reports about altered runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import evopolicygym
from conftest import policy_source
from evopolicygym.judge.events import Scored, Validated
from evopolicygym.judge.ledger import START, line_hash, read
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.verify import Verification, verify
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.sandbox.policy.jail import Level, residues
from evopolicygym.tasks.ids import comparable_id
from server_helpers import TOY, Server, command

CLOCK = policy_source(act="import time; return time.perf_counter_ns() // 10 % 3")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two submissions of the best policy with a worse one between them, and one that does not load."""
    server = Server(tmp_path_factory.mktemp("finished") / "run")
    for act in ("return 2", "return 1", "return 2"):
        server.policy(policy_source(act=act))
        assert server.submit([0, 1])[1]["status"] == "ok"
    server.policy("import nothing_of_that_name\n")
    assert server.submit([0, 1])[1]["status"] == "import_error"
    server.finish()
    server.close()
    return server.root


@pytest.fixture(scope="module")
def improved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy, a worse one and a better one."""
    server = Server(tmp_path_factory.mktemp("improved") / "run")
    for act in ("return 1", "return 0", "return 2"):
        server.policy(policy_source(act=act))
        assert server.submit([0])[1]["status"] == "ok"
    server.finish()
    server.close()
    return server.root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """Return a copy that tests may alter."""
    return copied(finished, tmp_path / "run")


def copied(run: Path, copy: Path) -> Path:
    shutil.copytree(run, copy)
    for parent, _, names in os.walk(copy):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            os.chmod(path, 0o755)
    return copy


def record(run: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((run / "run.json").read_text())
    return parsed


def failing(report: Verification) -> dict[str, str]:
    return {finding.what: finding.detail for finding in report.findings if not finding.ok}


def rewrite(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Alter lines and recompute the hash chain, as everyone with write access can."""
    previous, written = START, b""
    for number, (_, raw) in enumerate(list(read(run / "ledger.jsonl"))):
        line = json.loads(raw)
        change(line)
        line |= {"sequence": number, "previous": previous}
        forged = json.dumps(line, separators=(",", ":")).encode()
        previous, written = line_hash(forged), written + forged + b"\n"
    (run / "ledger.jsonl").write_bytes(written)


def test_ties_go_to_the_later_and_equal_checkpoints_are_validated_once(finished):
    outcome = record(finished)["outcome"]
    assert outcome["kind"] == "scored" and outcome["submission"] == 3
    assert outcome["stopped_early"] and outcome["budget_left"] == 120
    assert outcome["repeat"] == "equal"
    events = [line.event() for line, _ in read(finished / "ledger.jsonl")]
    assert sum(isinstance(event, Validated) for event in events) == 2
    report = verify(finished, 1, task=TOY)
    assert report.ok and report.replay is Replay.EQUAL, failing(report)


def test_the_first_submission_is_measured_beside_the_selected_one(improved):
    first, second, selected = record(improved)["checkpoints"]
    assert record(improved)["outcome"]["submission"] == 3
    assert first["heldout"]["mean"] < selected["heldout"]["mean"] and second["heldout"] is None
    assert len(first["heldout"]["returns"]) == len(selected["heldout"]["returns"])
    report = verify(improved, 1, task=TOY)
    assert report.ok and report.replay is Replay.EQUAL and report.first_replay is Replay.EQUAL, failing(report)


def test_a_first_submission_that_is_selected_is_measured_once(finished):
    events = [line.event() for line, _ in read(finished / "ledger.jsonl")]
    assert sum(isinstance(event, Scored) for event in events) == 1
    report = verify(finished, 1, task=TOY)
    assert report.first_replay is None and "first" not in {finding.what for finding in report.findings}


def test_the_outcome_says_what_the_feedback_was_worth(improved, finished):
    first, _, selected = (
        checkpoint["heldout"] and checkpoint["heldout"]["mean"] for checkpoint in record(improved)["checkpoints"]
    )
    printed = command("finish", improved).stdout
    assert (
        f"first submission {first:.6g}, selected {selected:.6g}: feedback was worth +{selected - first:.4g}" in printed
    )
    assert "the policy of the first submission was selected" in command("finish", finished).stdout
    run = evopolicygym.load_run(improved)
    (row,) = evopolicygym.load_runs(improved).runs.to_dict("records")
    assert row["gain_heldout"] == pytest.approx(selected - first) and row["first_submission"] == 1
    assert row["score"] == pytest.approx(row["first_heldout"] + row["gain_heldout"]) == run.score
    assert row["at_16"] == row["validation_mean"] and not row["unchanged"] and pandas.isna(row["auc"])  # no scale


def test_forged_returns_of_the_first_submission_are_named(improved, tmp_path):
    run = copied(improved, tmp_path / "run")
    first = record(run)["checkpoints"][0]["hash"]

    def worsen(line: dict[str, Any]) -> None:
        if line["kind"] == "scored" and line["data"]["checkpoint"] == first:
            line["data"]["tally"]["returns"] = [value - 1.0 for value in line["data"]["tally"]["returns"]]

    rewrite(run, worsen)
    report = verify(run, 1, task=TOY)
    assert report.replay is Replay.EQUAL and report.first_replay is Replay.MISMATCH
    assert "the first submission gives other held-out returns" in failing(report)["first"]


def test_the_record_says_what_the_policies_level_does_not_stop(finished):
    isolation = record(finished)["isolation"]
    assert isolation["policy_residues"] == list(residues(Level(isolation["policy"])))
    assert isolation["policy_residues"]


def test_measuring_every_checkpoint_does_not_change_the_selection(run):
    before = record(run)
    scored = command("score", run, "--all-checkpoints", "--jobs", "1", "--json")
    assert scored.returncode == 0, scored.stderr
    assert "scoring (held-out) | 3/3 hidden episodes" in scored.stderr
    after = record(run)
    assert after["outcome"] == before["outcome"]
    measured = [checkpoint["heldout"] is not None for checkpoint in after["checkpoints"]]
    assert measured == [True, True, False] and json.loads(scored.stdout) == after["checkpoints"]
    report = verify(run, 1, task=TOY)
    assert report.ok, failing(report)


def test_a_run_that_came_through_git_can_be_scored_further(run):
    """Empty folders are lost on that way, and come back as they were made: only their owner may write there."""
    remove_tree(run / "logs")
    done = command("score", run, "--all-checkpoints", "--jobs", "1", umask=0)
    assert done.returncode == 0, done.stderr
    assert [checkpoint["heldout"] is not None for checkpoint in record(run)["checkpoints"]] == [True, True, False]
    assert (run / "logs").stat().st_mode & 0o777 == 0o755


def test_altered_files_are_named(run):
    """All in one report, and by the command."""
    facts = record(run)
    winner = facts["outcome"]["checkpoint"]
    (run / "checkpoints" / winner / "policy.py").write_text(policy_source(act="return 0"))
    (run / "feedback/submit_002/episodes/ep_001/trajectory.jsonl").write_text("{}\n")
    shutil.rmtree(run / "feedback/submit_004")
    facts["outcome"]["heldout"]["mean"] += 1e-9
    (run / "run.json").write_text(json.dumps(facts))
    verified = command("verify", run, "--jobs", "1", "--json")
    assert verified.returncode == 1 and "Traceback" not in verified.stderr
    wrong = {
        finding["what"]: finding["detail"] for finding in json.loads(verified.stdout)["findings"] if not finding["ok"]
    }
    assert set(wrong) == {"checkpoints", "feedback", "record", "replay"}
    assert winner[:16] in wrong["checkpoints"] and "outcome" in wrong["record"]
    assert "submit_002 was altered" in wrong["feedback"] and "submit_004 is missing" in wrong["feedback"]
    assert "is not what was submitted" in wrong["replay"]


def test_an_altered_ledger_is_named(run):
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0", b"1", 1)
    (run / "ledger.jsonl").write_bytes(b"".join(lines))
    assert (
        "line 5" in failing(verify(run, 1, task=TOY))["ledger"]
        or "line 6" in failing(verify(run, 1, task=TOY))["ledger"]
    )


def test_missing_last_lines_are_noticed(run):
    """The hash chain alone cannot show it: the rest of it is valid."""
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (run / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    assert "which the ledger does not hold" in failing(verify(run, 1, task=TOY))["record"]


def test_a_forged_selection_is_named(run):
    def select_another(line: dict[str, Any]) -> None:
        if line["kind"] == "selected":
            line["data"]["submission"] = 1

    rewrite(run, select_another)
    assert failing(verify(run, 1, task=TOY))["selection"] == "submission 1 was selected, but 3 is the best"


def test_a_forged_charge_is_named(run):
    """The same number twice would hide the first charge; a second opening would raise the budget."""

    def hide(line: dict[str, Any]) -> None:
        if line["kind"] == "charged" and line["data"]["submission"] == 2:
            line["data"]["submission"] = 1
        if line["kind"] == "judged" and line["data"]["submission"] == 2:
            line["data"]["submission"] = 1
        if line["kind"] == "owned":
            opened = json.loads(next(read(run / "ledger.jsonl"))[1])
            line["kind"], line["data"] = "opened", opened["data"] | {"budget": 1000}

    rewrite(run, hide)
    budget = failing(verify(run, 1, task=TOY))["budget"]
    assert "charges submission 1 out of turn" in budget and "opens the run a second time" in budget


def played_elsewhere(change: Callable[[tuple[float, ...]], list[float]]) -> Callable[[dict[str, Any]], None]:
    """A forger of ledger lines: the run was played on another kind of machine, with these held-out returns."""

    def rewrite_line(line: dict[str, Any]) -> None:
        data = line["data"]
        if line["kind"] == "opened":
            data["facts"]["ids"] |= {"bit_id": "b-another", "machine": {"libc": "musl 1.2"}}
        if line["kind"] == "owned":
            data["bit_id"] = "b-another"
        if line["kind"] == "scored":
            data["tally"]["returns"] = change(data["tally"]["returns"])
        if line["kind"] == "repeated":
            data["returns"] = change(data["returns"])

    return rewrite_line


@pytest.mark.parametrize(
    ("change", "replay", "says"),
    [
        (lambda returns: returns, Replay.EQUAL, "equal to the bit, twice; the bit_id differs"),
        (lambda returns: [value + 2e-9 for value in returns], Replay.CLOSE, "largest difference 2e-09 (case 0"),
        (lambda returns: [value + 1.5 for value in returns], Replay.DIFFERS, "largest difference 1.5 (case 0"),
    ],
)
def test_a_run_of_another_machine_is_replayed_and_compared(run, change, replay, says):
    rewrite(run, played_elsewhere(change))
    report = verify(run, 1, task=TOY)
    replayed = next(finding for finding in report.findings if finding.what == "replay")
    assert report.replay is replay and replayed.ok == (replay is not Replay.DIFFERS)
    assert says in replayed.detail and "b-another in the run (other libc)" in replayed.detail


def test_other_returns_on_the_same_machine_are_a_mismatch(run):
    """The control: the same small difference, without another bit_id."""

    def change(line: dict[str, Any]) -> None:
        if line["kind"] in ("scored", "repeated"):
            tally = line["data"].get("tally", line["data"])
            tally["returns"] = [value + 2e-9 for value in tally["returns"]]

    rewrite(run, change)
    assert verify(run, 1, task=TOY).replay is Replay.MISMATCH


def test_a_run_of_another_machine_is_continued_with_a_notice(run):
    rewrite(run, played_elsewhere(list))
    scored = command("score", run, "--all-checkpoints", "--jobs", "1", "--json")
    assert scored.returncode == 0, scored.stderr
    assert "returns may differ in their last bits" in scored.stderr
    assert all(one["heldout"] for one in json.loads(scored.stdout)[:2])
    ids = record(run)["ids"]
    assert ids["bit_id"] == "b-another" and len(ids["other_bit_ids"]) == 1


def test_a_run_of_other_versions_is_not_continued(run):
    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "opened":
            line["data"]["facts"]["ids"]["fingerprint"]["packages"] = {"numpy": "1.0"}

    rewrite(run, change)
    scored = command("score", run, "--all-checkpoints", "--jobs", "1")
    assert scored.returncode == 2 and "the run was opened with other packages" in scored.stderr


def test_cases_of_another_sealing_key_cannot_be_replayed(run):
    def change(line: dict[str, Any]) -> None:
        if line["kind"] == "opened":
            ids = line["data"]["facts"]["ids"]
            ids["splits_id"] = ids["fingerprint"]["splits"] = "sealed:0123456789"
            ids["comparable_id"] = comparable_id(ids["fingerprint"])

    rewrite(run, change)
    assert "Name the key that sealed them" in failing(verify(run, 1, task=TOY))["replay"]


def test_a_copy_without_feedback_is_verified_with_a_notice(run):
    shutil.rmtree(run / "feedback")
    report = verify(run, 1, task=TOY)
    assert report.ok, failing(report)
    assert {finding.what: finding.detail for finding in report.findings}["feedback"] == "not in this copy of the run"


def test_a_missing_winner_is_reported(run):
    shutil.rmtree(run / "checkpoints" / record(run)["outcome"]["checkpoint"])
    (run / "config.toml").unlink()
    wrong = failing(verify(run, 1, task=TOY))
    assert "is missing" in wrong["checkpoints"] and "config.toml" in wrong["settings"]
    assert wrong["replay"].startswith("not played")


def test_a_policy_that_reads_the_clock_is_nondeterministic(serve):
    server = serve()
    server.policy(CLOCK)
    server.submit([0])
    assert server.finish()["outcome"]["repeat"] == "nondeterministic"
    verified = command("verify", server.root, "--jobs", "1", "--json")
    assert verified.returncode == 1
    wrong = [finding for finding in json.loads(verified.stdout)["findings"] if not finding["ok"]]
    assert [finding["what"] for finding in wrong] == ["replay"] and wrong[0]["detail"].startswith("nondeterministic")


def test_a_run_without_a_candidate_has_an_outcome(serve):
    """Nothing submitted; then, in another run, nothing that loads."""
    server = serve()
    outcome = server.finish()["outcome"]
    assert (outcome["kind"], outcome["submission"], outcome["budget_left"]) == ("no_ok_submit", None, 128)
    done = command("finish", server.root)
    assert done.returncode == 0 and "no_ok_submit" in done.stdout and "with 128 episodes left" in done.stdout
    assert verify(server.root, 1, task=TOY).replay is Replay.NOTHING_TO_REPLAY

    other = serve(name="other")
    other.policy("raise ValueError('no')\n")
    assert other.submit([0, 1, 2])[1]["status"] == "import_error"
    outcome = other.finish()["outcome"]
    assert (outcome["kind"], outcome["submission"], outcome["budget_left"]) == ("no_ok_submit", None, 125)
    assert verify(other.root, 1, task=TOY).ok


def test_a_record_that_a_crash_prevented_is_written_later(run):
    """The kill came after the last line of the ledger, before run.json: `finish` or `score` writes it."""
    stale = record(run) | {"outcome": None, "status": "closed", "ledger_head": "0" * 64}
    for mend in (("finish", run), ("score", run)):
        (run / "run.json").write_text(json.dumps(stale))
        done = command(*mend, "--jobs", "1")
        assert done.returncode == 0, done.stderr
        assert record(run)["status"] == "finished"
    report = verify(run, 1, task=TOY)
    assert report.ok, failing(report)


def test_a_forged_number_of_cases_is_named(run):
    """The ledger claims more cases than the settings."""

    def claim(line: dict[str, Any]) -> None:
        if line["kind"] == "opened":
            line["data"]["heldout_cases"] = 32

    rewrite(run, claim)
    assert "heldout_cases is 32 in the ledger" in failing(verify(run, 1))["settings"]


def test_an_outcome_that_is_not_in_the_ledger_is_named(run):
    """The last line is removed, and run.json claims an outcome."""
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)[:-1]
    (run / "ledger.jsonl").write_bytes(b"".join(lines))
    facts = record(run)
    facts["ledger_head"] = line_hash(lines[-1].rstrip(b"\n"))
    winner = next(made for made in facts["checkpoints"] if made["hash"] == facts["outcome"]["checkpoint"])
    returns = [value + 1000.0 for value in winner["heldout"]["returns"]]
    winner["heldout"] |= {"returns": returns, "mean": sum(returns) / len(returns)}
    facts["outcome"]["heldout"] = winner["heldout"]
    (run / "run.json").write_text(json.dumps(facts))
    assert "outcome of run.json does not follow" in failing(verify(run, 1))["record"]


def test_an_exchanged_checkpoint_is_not_played(run):
    """`score` would record its returns for another policy."""
    loser = next(
        checkpoint["hash"]
        for checkpoint in record(run)["checkpoints"]
        if checkpoint["heldout"] is None and checkpoint["validation"]
    )
    (run / "checkpoints" / loser / "policy.py").write_text(policy_source(act="return 2"))
    before = (run / "ledger.jsonl").read_bytes()
    done = command("score", run, "--all-checkpoints", "--jobs", "1")
    assert done.returncode == 2 and "is not what was submitted" in done.stderr
    assert b'"scored"' not in (run / "ledger.jsonl").read_bytes()[len(before) :]
