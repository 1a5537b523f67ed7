"""`verify` reads a bounded number of bytes: sparse files and links make any number of them from an archive of a few."""

from __future__ import annotations

from evopolicygym.judge.ledger import read
from evopolicygym.judge.state import fold
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs import verify
from hostile_runs import copy_example


def test_checkpoints_that_verify_reads_are_limited(tmp_path, monkeypatch):
    paths = RunPaths(copy_example(tmp_path / "run"))
    state = fold(line for line, _ in read(paths.ledger))
    assert not list(verify._checkpoints(paths, state)), "control"
    monkeypatch.setattr(verify, "MAX_CHECKPOINT_BYTES", 1)
    assert list(verify._checkpoints(paths, state)) == ["they have more than 0 GiB; the rest was not checked"]


def test_feedback_that_verify_reads_is_limited(tmp_path, monkeypatch):
    paths = RunPaths(copy_example(tmp_path / "run"))
    state = fold(line for line, _ in read(paths.ledger))
    first = paths.feedback / "submit_001"
    first.mkdir(parents=True)
    (first / "summary.json").write_text("{}")
    with (first / "sparse").open("wb") as file:
        file.truncate(1 << 20)
    digests = []
    monkeypatch.setattr(verify, "_digest", lambda folder: digests.append(folder) or "")
    assert "submit_001 was altered" in list(verify._feedback(paths, state)), "control"
    assert digests
    digests.clear()
    monkeypatch.setattr(verify, "MAX_FEEDBACK_BYTES", 1 << 19)
    (problem,) = verify._feedback(paths, state)
    assert problem == "there are more than 0 GiB; submit_001 and later were not checked" and not digests
