"""Feedback of one submission: summary.json, what of it an agent sees at its feedback level, and the judge's own folder,
which holds everything at every level.

A folder is complete before it gets its name. ``judge/delivery.py`` copies what the agent may see of it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from evopolicygym.execution.records import EpisodeError, EpisodeResult, LoadResult, mean
from evopolicygym.files import list_files, open_file, sync, sync_tree
from evopolicygym.judge.events import episode_stats
from evopolicygym.judge.protocol import Verdict
from evopolicygym.judge.state import Submission
from evopolicygym.sandbox.checkpoints import STAGED, remove_tree
from evopolicygym.tasks.conditions import FeedbackLevel

# Far beyond what one submission can record; more is not read from a folder that may be forged.
MAX_BYTES: Final = 16 << 30
MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 4
MESSAGE_CHARACTERS: Final = 400
SCORE_MESSAGE_CHARACTERS: Final = 200  # at `score`, of one message of each kind
DIGITS: Final = 10  # of returns and means; the ledger has them exactly

# Keys of a summary: all that `score` shows, where errors are counted by kind and name no case; then those that
# `summary` does not show yet.
SCORE_KEYS: Final = (
    *("submit_id", "status", "env_instances", "n_episodes", "mean_return", "n_failed", "errors"),
    *("remaining_budget", "feedback"),
)
TRAJECTORY_KEYS: Final = ("change", "policy_cpu_s", "act_cpu_ms", "longest_act_cpu_ms", "worst", "left_out", "removed")


class FeedbackWriter:
    """An unfinished feedback folder beside the finished ones. Workers stream their episodes into it."""

    def __init__(self, feedback: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=STAGED, dir=feedback))
        (self.folder / "episodes").mkdir()

    def episode(self, number: int) -> Path:
        return self.folder / "episodes" / f"ep_{number:03}"

    def write(self, summary: dict[str, Any], load: LoadResult, results: list[EpisodeResult]) -> str:
        """Write what the workers have not written. Returns the digest of the whole folder."""
        for result in results:
            _write_texts(self.episode(result.number), result.error, result.stdout, result.stderr)
        if load.error:
            _write_texts(self.folder, None, load.stdout, load.stderr)
        (self.folder / "errors.txt").write_text("\n".join(_error_texts(load, results)), "utf-8")
        (self.folder / "summary.json").write_text(summary_text(summary), "utf-8")
        _make_read_only(self.folder)
        return digest(self.folder)

    def publish(self, target: Path) -> None:
        """Give the folder its name. An existing one is from an execution that crashed before its verdict and was never
        shown."""
        remove_tree(target)
        sync_tree(self.folder)
        os.chmod(self.folder, 0o755)
        os.rename(self.folder, target)
        os.chmod(target, 0o555)
        sync(target.parent)

    def discard(self) -> None:
        remove_tree(self.folder)


def digest(folder: Path) -> str:
    """Hash the names and contents of a folder. Raises OSError for links, pipes and endless files, which no judge
    writes."""
    whole, remaining = hashlib.sha256(), MAX_BYTES
    for path in sorted(map(PurePosixPath, list_files(folder.parent, folder.name, MAX_FILES, MAX_DEPTH))):
        with open_file(folder, str(path), remaining) as file:
            part = hashlib.file_digest(file, "sha256").hexdigest()
            remaining -= file.tell()
        whole.update(f"{part} {path}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _error_texts(load: LoadResult, results: list[EpisodeResult]) -> Iterator[str]:
    if load.error:
        yield f"the policy does not load: {load.error.kind}\n{load.error.text.rstrip()}\n"
    for result in results:
        if result.error:
            where = f"ep_{result.number:03} (case {result.case.index})"
            yield f"{where}: {result.error.kind}\n{result.error.text.rstrip()}\n"


def _write_texts(folder: Path, error: EpisodeError | None, stdout: str, stderr: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "stdout.txt").write_text(stdout, "utf-8")
    (folder / "stderr.txt").write_text(stderr, "utf-8")
    if error:
        (folder / "error.txt").write_text(f"{error.kind}\n{error.text.rstrip()}\n", "utf-8")


def _make_read_only(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(parent, name), 0o444)
        if parent != str(folder):
            os.chmod(parent, 0o555)


def summarize(
    submission: Submission,
    verdict: Verdict,
    load: LoadResult,
    results: list[EpisodeResult],
    wall_s: float,
    remaining: int,
) -> dict[str, Any]:
    """Return the content of summary.json. Means are null if nothing was played."""
    played = episode_stats(results)
    returns = [_short(value) for value in played.returns]
    return {
        "submit_id": submission.name,
        "status": verdict,
        "env_instances": list(submission.charged.cases),
        "n_episodes": len(submission.charged.cases),
        "returns": returns,
        "lengths": list(played.lengths),
        "mean_return": _short(played.mean) if results else None,
        "std_return": _short(played.std) if results else None,
        "min_return": min(returns, default=None),
        "max_return": max(returns, default=None),
        "terminated": [result.terminated for result in results],
        "truncated": [result.truncated for result in results],
        "n_failed": sum(result.error is not None for result in results),
        "errors": list(_failures(load, results)),
        "invalid_actions": sum(kind == "invalid_action" for kind in played.errors),
        "clipped_actions": sum(result.clipped_actions for result in results),
        "wall_time_s": round(wall_s, 3),
        "remaining_budget": remaining,
        "feedback": f"feedback/{submission.name}",
        "policy_cpu_s": [round(result.policy_cpu_s, 3) for result in results],
        "act_cpu_ms": [round(1000 * result.act_cpu_s, 4) for result in results],
        "longest_act_cpu_ms": [round(1000 * result.longest_act_cpu_s, 4) for result in results],
        "left_out": [
            {"episode": result.number, "what": what} for result in results for what in result.left_out
        ],
    }  # fmt: skip


def change(summary: Mapping[str, Any], earlier: Iterable[Submission]) -> dict[str, Any] | None:
    """Return how returns differ from those of the last ``ok`` submission that shares at least half of the cases, else
    the last of those that share most; under ``best``, from those of the best such submission. Cases that failed on
    either side are not compared."""
    last_first = sorted(earlier, key=lambda submission: submission.number, reverse=True)
    comparisons = [comparison for submission in last_first if (comparison := _compare(summary, submission))]
    most = max(map(_n_compared, comparisons), default=0)
    enough = min(most, math.ceil(len(summary["env_instances"]) / 2))
    eligible = [comparison for comparison in comparisons if _n_compared(comparison) >= enough]
    if not eligible:
        return None
    return eligible[0] | {"best": min(eligible, key=lambda comparison: float(comparison["mean"]))}


def _compare(summary: Mapping[str, Any], submission: Submission) -> dict[str, Any] | None:
    """Return the differences to one earlier submission, null where there is none; None if no case can be compared."""
    judged = submission.judged
    if judged is None or judged.verdict != Verdict.OK:
        return None
    before = {case: value for case, value in _played(judged.summary) if value is not None}
    differences = [
        _difference(value, before[case]) if value is not None and case in before else None
        for case, value in _played(summary)
    ]
    measured = [difference for difference in differences if difference is not None]
    if not measured:
        return None
    return {"against": submission.name, "mean": _short(mean(measured)), "cases": differences}


def _played(summary: Mapping[str, Any]) -> Iterator[tuple[int, float | None]]:
    """Yield case and return of each episode; None for the return of a failed one. Nothing if nothing was played."""
    failed = {error["episode"] for error in summary["errors"]}
    for number, value in enumerate(summary["returns"]):
        yield summary["env_instances"][number], None if number in failed else value


def _n_compared(comparison: Mapping[str, Any]) -> int:
    return sum(difference is not None for difference in comparison["cases"])


def worst_episode(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the episode with the lowest return; the first of several."""
    returns = summary["returns"]
    if not returns:
        return None
    number = returns.index(min(returns))
    return {"episode": number, "env_instance": summary["env_instances"][number], "return": returns[number]}


def shown_summary(summary: Mapping[str, Any], level: FeedbackLevel) -> dict[str, Any]:
    """Return what an agent sees of a summary. Summaries of older runs lack some keys."""
    if level is FeedbackLevel.SCORE:
        return {name: summary[name] for name in SCORE_KEYS} | {"errors": list(_kinds(summary["errors"]))}
    hidden = TRAJECTORY_KEYS if level is FeedbackLevel.SUMMARY else ()
    return {name: value for name, value in summary.items() if name not in hidden}


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return JSON with one line for each key, and one for each error."""
    lines = [f" {json.dumps(name)}: {_json_value(value)}" for name, value in summary.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json_value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(json.dumps(each, allow_nan=False) for each in value) + "\n ]"
    return json.dumps(value, allow_nan=False)


def _difference(now: float, before: float) -> float | None:
    """Return the difference, rounded; None if it is beyond all floats."""
    return _short(now - before) if math.isfinite(now - before) else None


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _failures(load: LoadResult, results: list[EpisodeResult]) -> Iterator[dict[str, Any]]:
    if load.error:
        yield {"episode": None, "env_instance": None, **_error_summary(load.error)}
    for result in results:
        if result.error:
            yield {"episode": result.number, "env_instance": result.case.index, **_error_summary(result.error)}


def _error_summary(error: EpisodeError) -> dict[str, str]:
    """Return the kind and the last line of a traceback; error.txt has the rest."""
    lines = error.text.strip().splitlines() or [""]
    return {"kind": error.kind, "message": lines[-1][:MESSAGE_CHARACTERS]}


def _kinds(errors: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one error of each kind, without its case, and how often the kind occurred. The message of an episode is
    limited: a policy chooses it, and can put into it what it saw."""
    for kind in dict.fromkeys(error["kind"] for error in errors):
        alike = [error for error in errors if error["kind"] == kind]
        first = alike[0]
        message = first["message"] if first["episode"] is None else printable_ascii(first["message"])
        yield {**first, "message": message, "episode": None, "env_instance": None, "count": len(alike)}


def printable_ascii(text: str) -> str:
    """Return the beginning of a text, with a question mark for every character that is not printable ASCII."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:SCORE_MESSAGE_CHARACTERS])
