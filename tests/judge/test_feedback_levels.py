"""Feedback levels: what an agent gets back, that asking for more gives nothing more, and what goes to make room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from conftest import policy_source, write_policy
from evopolicygym.judge import submission
from evopolicygym.judge.contact_sheet import write_sheet
from evopolicygym.judge.delivery import over_the_cap, shown_files
from evopolicygym.judge.feedback import SCORE_KEYS, TRAJECTORY_KEYS, change, shown_summary
from evopolicygym.judge.protocol import SubmitRequest
from evopolicygym.runs.open_run import open_run
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.conditions import FeedbackLevel
from server_helpers import SMALL, Server

FAILS_ONCE = (
    "print('obs', obs[1])\nif obs[0] == 3 and obs[1] > 0.5: raise ValueError(chr(99999) * 9000 + str(obs[1]))\nreturn 1"
)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def submitted(server: Server, cases: str = "0-7", **headers: str) -> tuple[dict[str, Any], Path]:
    server.policy(policy_source(FAILS_ONCE))
    code, answer = server.submit(cases, **headers)
    assert code == 200, answer
    return answer["summary"], server.workspace / answer["summary"]["feedback"]


def test_score_tells_the_mean_and_the_policys_own_errors(serve):
    """Whatever else is asked for. The judge's copy has everything, for analysis."""
    server = serve("--feedback", "score", *SMALL)
    summary, folder = submitted(server)
    assert names(folder) == {"summary.json", "errors.txt"} and set(summary) == set(SCORE_KEYS)
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert 0 < summary["n_failed"] < 8 and summary["mean_return"] < 0
    (error,) = summary["errors"]
    assert (error["kind"], error["episode"], error["env_instance"], error["count"]) == (
        "act_error", None, None, summary["n_failed"],
    )  # fmt: skip
    text = (folder / "errors.txt").read_text()
    assert text.startswith('act_error\n  File "policy.py", line ') and "ValueError" in text
    assert text.isascii() and text.rstrip("\n").endswith(error["message"])  # no more than the reply has
    assert 100 < len(error["message"]) <= 200 and len(text) < 300
    name = summary["submit_id"]
    assert server.call("GET", f"/submissions/{name}?feedback=video")[1]["summary"] == summary
    assert server.call("GET", "/info")[1]["feedback"] == "score"
    code, answer = server.call("POST", "/submit", {"env_instances": [0], "feedback": "video", "level": "trajectory"})
    assert code == 200 and set(answer["summary"]) == set(SCORE_KEYS)
    for path in (f"/feedback/{name}/summary.json", f"/submissions/{name}/episodes", f"/submissions/../{name}"):
        assert server.call("GET", path)[0] == 404
    canonical = server.root / "feedback" / name
    assert {"episodes/ep_000/episode.npz", "episodes/ep_000/stdout.txt"} < names(canonical)
    assert len(json.loads((canonical / "summary.json").read_text())["returns"]) == 8
    shown = server.client("0")
    assert shown.returncode == 0 and "mean return" in shown.stdout and "case 0" not in shown.stdout
    server.kill()
    server.start()  # delivers again what is missing, at the same level
    assert names(folder) == {"summary.json", "errors.txt"}


def test_score_limits_the_names_that_a_policy_chooses(tmp_path):
    """Types and files are names that a policy can make up, like its messages."""
    long, wide = "n" * 5000, chr(0x2FFF0) * 300
    texts = [f'Traceback\n  File "{name}.py", line {9**99}, in act\n{name}: first\n{name}' for name in (long, wide)]
    errors = []
    for number, text in enumerate(texts):
        (tmp_path / f"episodes/ep_{number:03}").mkdir(parents=True)
        (tmp_path / f"episodes/ep_{number:03}/error.txt").write_text(f"kind_{number}\n{text}")
        errors.append({"episode": number, "env_instance": 0, "kind": f"kind_{number}", "message": text.split("\n")[-1]})
    summary = dict.fromkeys(SCORE_KEYS, 0) | {"errors": errors, "returns": [0.0, 0.0]}
    shown = shown_files(tmp_path, summary, FeedbackLevel.SCORE).texts["errors.txt"].decode()
    assert shown == f"kind_0\n{'n' * 200}\n\nkind_1\n{'?' * 200}\n"


def test_score_shows_what_a_policy_prints_while_it_does_not_load(serve):
    server = serve("--feedback", "score", *SMALL)
    server.policy("print('so far')\nimport nothing_like_it\n")
    code, answer = server.submit("0")
    folder = server.workspace / answer["summary"]["feedback"]
    assert (code, answer["status"]) == (200, "import_error")
    assert names(folder) == {"summary.json", "errors.txt", "stdout.txt", "stderr.txt"}
    assert "nothing_like_it" in (folder / "errors.txt").read_text()
    assert (folder / "stdout.txt").read_text() == "so far\n"


def test_summary_has_every_case_and_no_trajectory(serve):
    server = serve("--feedback", "summary", *SMALL)
    summary, folder = submitted(server)
    assert not set(summary) & set(TRAJECTORY_KEYS) and len(summary["returns"]) == 8
    assert json.loads((folder / "summary.json").read_text()) == summary
    per_episode = {path.rpartition("/")[2] for path in names(folder) if path.startswith("episodes/")}
    assert per_episode == {"stdout.txt", "stderr.txt", "error.txt"}
    assert server.call("GET", "/info")[1]["env_meta"]["obs_storage"] == {}


def test_trajectory_compares_with_the_last_submission_on_the_same_cases(serve):
    server = serve(*SMALL)
    server.policy(policy_source("return 1"))
    first = server.submit("0-3")[1]["summary"]
    slow_third = "self.n += 1\nend = process_time() + 0.05 * (self.n == 3)\nwhile process_time() < end: pass\nreturn 2"
    server.policy(policy_source(slow_third, reset="self.n = 0", top="from time import process_time"))
    second = server.submit("2-5")[1]["summary"]
    assert first["change"] is None and second["change"]["against"] == "submit_001"
    differences = [second["returns"][i] - first["returns"][i + 2] for i in (0, 1)]
    assert second["change"]["cases"] == [*(pytest.approx(each) for each in differences), None, None]
    assert second["change"]["mean"] == pytest.approx(sum(differences) / 2)
    assert len(second["act_cpu_ms"]) == len(second["policy_cpu_s"]) == 4
    assert min(second["longest_act_cpu_ms"]) > 45.0 > max(second["act_cpu_ms"])
    worst = second["worst"]
    assert worst["return"] == min(second["returns"]) == second["returns"][worst["episode"]]
    assert second["env_instances"][worst["episode"]] == worst["env_instance"]
    text = (server.workspace / second["feedback"] / "summary.json").read_text()
    assert json.loads(text) == second and len(text.splitlines()) == len(second) + 2


def test_failed_episodes_and_small_overlaps_hide_no_regression(serve):
    """The last submission played one case and failed; the one before it is worse than the first."""
    server = serve("--budget", "20", *SMALL)
    for act, cases in (("return 2", "0-3"), ("return 0", "0-3"), ("raise ValueError", "0")):
        server.policy(policy_source(act))
        server.submit(cases)
    server.policy(policy_source("return 1"))
    change = server.submit("0-4")[1]["summary"]["change"]
    assert change["against"] == "submit_002" and [each is None for each in change["cases"]] == [False] * 4 + [True]
    assert change["best"]["against"] == "submit_001" and change["best"]["mean"] < 0 < change["mean"]
    server.policy(policy_source("raise ValueError"))
    assert server.submit("0-3")[1]["summary"]["change"] is None
    printed = server.client("0").stdout.splitlines()
    assert printed[0].endswith(": 1 of 1 episode FAILED; status ok") and "change" not in "".join(printed)


def test_videos_of_a_blind_run_may_be_recorded_for_people():
    """tests/runs/test_conditions.py: not for the agent."""
    assert RunSettings.make(task="core16/acrobot", text="blind", video="first").videos == "first"
    assert RunSettings.make(task="core16/acrobot", feedback="video").videos == "all"


def test_large_files_of_the_oldest_submissions_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "WORKSPACE_FEEDBACK_BYTES", 1)
    with open_run(tmp_path / "run", task="toys:Toy-v0", seeds="paper", budget=8, jobs=1) as run:
        write_policy(run.paths.system, policy_source())
        for number in range(3):
            accepted = submission.accept(run.judge, SubmitRequest((number,), f"key-{number}"))
            submission.execute(run.judge, accepted)
        judged = [each.judged for each in run.judge.state.submissions.values()]
        assert [each.summary["removed"] for each in judged] == [[], ["submit_001"], ["submit_001", "submit_002"]]
        for number, is_kept in ((1, False), (2, False), (3, True)):
            name = f"submit_00{number}"
            large = {"episodes/ep_000/episode.npz", "episodes/ep_000/trajectory.jsonl"}
            delivered, own = (names(root / name) for root in (run.paths.workspace / "feedback", run.paths.feedback))
            assert large <= own and delivered == (own if is_kept else own - large)
    with open_run(tmp_path / "run") as run:  # what is delivered again stays without them
        assert "episodes/ep_000/episode.npz" not in names(run.paths.workspace / "feedback" / "submit_001")


def test_the_newest_is_kept_whatever_its_size():
    sizes = {"a": 5, "b": 3, "c": 9}
    assert over_the_cap(sizes, 100) == [] and over_the_cap(sizes, 12) == ["a"] and over_the_cap(sizes, 1) == ["a", "b"]


def test_summaries_of_older_runs_can_be_shown():
    """They lack the keys that were added since."""
    old = dict.fromkeys(SCORE_KEYS, 0) | {"errors": [], "returns": [1.0]}
    assert shown_summary(old, FeedbackLevel.TRAJECTORY) == old
    assert set(shown_summary(old, FeedbackLevel.SCORE)) == set(SCORE_KEYS)
    assert change({"env_instances": [0], "returns": [1.0], "errors": []}, []) is None


def record(folder: Path, **arrays: Any) -> Path:
    folder.mkdir()
    np.savez(folder / "episode.npz", **arrays)
    return folder


def test_a_sheet_of_pictures(tmp_path):
    space = {"type": "Dict", "spaces": {"view": {"type": "Box", "shape": [96, 64, 3], "dtype": "uint8"}}}
    shades = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None, None, None], (200, 96, 64, 3))
    sheet = write_sheet(space, record(tmp_path / "ep", obs_view=shades), tmp_path)
    assert sheet["file"] == "worst.png" and len(sheet["steps"]) == 20
    assert (sheet["steps"][0], sheet["steps"][-1]) == (0, 199)
    with av.open(str(tmp_path / "worst.png")) as picture:
        pixels = next(picture.decode(video=0)).to_ndarray(format="rgb24")
    assert pixels.shape == (4 * 97 - 1, 5 * 65 - 1, 3)
    assert [pixels[10, column, 0] for column in (10, 75, 140)] == sheet["steps"][:3]


def test_a_sheet_of_codes(tmp_path):
    space = {"type": "Box", "shape": [3, 4, 3], "dtype": "uint8"}
    grids = np.zeros((5, 3, 4, 3), np.uint8)
    grids[2, 1, 3] = (10, 5, 99)
    sheet = write_sheet(space, record(tmp_path / "ep", obs=grids, action=np.arange(4)), tmp_path)
    assert sheet == {"file": "worst.txt", "steps": [0, 1, 2, 3, 4]}
    frames = (tmp_path / "worst.txt").read_text().split("\n\n")
    assert frames[2] == "step 2, action 2\n... ... ... ...\n... ... ... a5+\n... ... ... ..."
    assert frames[4].startswith("step 4\n")


def test_numbers_alone_have_no_sheet(tmp_path):
    space = {"type": "Box", "shape": [4], "dtype": "float32"}
    assert write_sheet(space, record(tmp_path / "ep", obs=np.zeros((3, 4))), tmp_path) == {}
    assert write_sheet({"type": "Box", "shape": [9, 9], "dtype": "uint8"}, tmp_path / "none", tmp_path) == {}
