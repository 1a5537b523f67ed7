"""A first run on sealed cases lands on a board with the random policy."""

from __future__ import annotations

import json

from server_helpers import command

TASK = "toys:Toy-v0"
SMALL = ("--agent", "starter", "--budget", "4", "--validation-cases", "1", "--heldout-cases", "8")


def test_a_first_run_on_sealed_cases_is_on_a_board_with_random_and_trivial_policies(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOPOLICYGYM_ANCHORS", str(tmp_path / "anchors"))
    played = command("run", TASK, *SMALL, "--run", tmp_path / "runs" / "first", "--name", "mine", "--no-anchors")
    assert played.returncode == 0 and not (tmp_path / "anchors").exists()
    played = command("run", TASK, *SMALL, "--run", tmp_path / "runs" / "second", "--name", "mine")
    assert played.returncode == 0 and "trivial policies on the same held-out cases: random " in played.stderr
    again = command("run", TASK, *SMALL, "--run", tmp_path / "runs" / "third", "--name", "mine")
    assert again.returncode == 0 and "trivial" not in again.stderr
    (board,) = json.loads(command("leaderboard", tmp_path / "runs", "--json").stdout)["boards"]
    (table,) = board["tasks"]
    assert {row["entrant"]: row["runs"] for row in table["rows"]} == {"mine": 3, "random policy": 3}
    assert set(table["trivial"]) == {"random", "zero", "constant", "starter"}
