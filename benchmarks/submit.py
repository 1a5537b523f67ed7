"""Measures what a submission costs beyond its episode: one-episode Reacher submissions to the API of a served run.

    python benchmarks/submit.py [SUBMISSIONS]

Each submission is followed by the same episode as a bare loop in this process, so that both meet the same machine; all
figures are medians. Then the parts of a submission one by one, called as the judge calls them.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine import CONSTANT, bare

from evopolicygym.execution.records import Episode, EpisodeResult, Recording
from evopolicygym.files import sync_tree
from evopolicygym.judge.delivery import copy_to_workspace, shown_files
from evopolicygym.judge.events import Refused
from evopolicygym.judge.feedback import FeedbackWriter, summarize
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.protocol import SubmitRequest, Verdict
from evopolicygym.judge.submission import accept, execute
from evopolicygym.runs.open_run import open_run
from evopolicygym.tasks.conditions import FeedbackLevel
from evopolicygym.tasks.splits import Split

TASK = "core16/reacher"
SUBMISSIONS = 50
OPTIONS = {"seeds": "paper", "budget": 1000, "jobs": 1}
Marks = dict[str, list[float]]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The path to the door of a run in a process of its own."""
    options = [part for name, value in OPTIONS.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "evopolicygym.cli.main", "serve", TASK, "--run", str(folder), "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["api"]
        finally:
            server.terminate()


def submit(connection: http.client.HTTPConnection, path: str, case: int) -> tuple[float, float, float]:
    """Seconds until the reply, seconds from the charge to the verdict as the reply tells them, and the return."""
    began = time.perf_counter()
    connection.request("POST", f"{path}/submit", json.dumps({"env_instances": [case]}))
    reply = json.loads(connection.getresponse().read())
    assert reply["status"] == "ok", reply
    return time.perf_counter() - began, reply["summary"]["wall_time_s"], reply["summary"]["returns"][0]


def through_the_door(folder: Path, count: int) -> None:
    with served(folder / "served") as api:
        write_policy(folder / "served" / "workspace" / "system")
        connection = http.client.HTTPConnection(urlsplit(api).netloc)
        with open_run(folder / "bare", task=TASK, **OPTIONS) as owner:
            means = owner.judge.context
            cases = owner.judge.cases(Split.TRAIN, list(range(count)))
        rows = []
        for number, case in enumerate(cases):
            whole_s, judge_s, score = submit(connection, urlsplit(api).path, number)
            _, bare_s, expected = bare(means.task, CONSTANT, case, stock=False)
            assert score == expected, (number, score, expected)
            rows.append((whole_s, judge_s, bare_s))
    show(rows[1:])


def show(rows: list[tuple[float, float, float]]) -> None:
    whole, judged, alone = (1e3 * statistics.median(column) for column in zip(*rows, strict=True))
    beyond = 1e3 * statistics.median(whole_s - bare_s for whole_s, _, bare_s in rows)
    ratio = statistics.median(whole_s / bare_s for whole_s, _, bare_s in rows)
    print("| submit, ms | of it load to feedback | bare episode, ms | beyond the episode, ms | submit / bare | count |")
    print("|---|---|---|---|---|---|")
    print(f"| {whole:.1f} | {judged:.1f} | {alone:.1f} | {beyond:.1f} | {ratio:.2f} | {len(rows)} |\n")


def write_policy(system: Path) -> None:
    (system / "policy.py").write_text(CONSTANT)


class Parts:
    """The steps of a submission with a stopwatch on each."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.marks = judge, Marks()

    def timed(self, name: str, step: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = step()
        self.marks.setdefault(name, []).append(time.perf_counter() - began)
        return result

    def once(self, number: int) -> None:
        judge, engine, paths = self.judge, self.judge.context.engine, self.judge.paths
        self.timed("snapshot, synced", lambda: engine.store.snapshot(paths.system, sync_tree))
        self.timed("one line of the ledger", lambda: judge.record(Refused("busy")))
        accepted = self.timed("all until the charge", lambda: accept(judge, SubmitRequest((number,), f"key-{number}")))
        checkpoint, (case,) = accepted.charged.checkpoint, judge.cases(Split.TRAIN, [number])
        load = self.timed("load", lambda: engine.load(checkpoint))
        self.timed("episode, isolated", lambda: list(engine.run([Episode(0, checkpoint, case)])))
        staged = FeedbackWriter(paths.feedback)
        recording = Recording(str(staged.episode(0)), video=False)
        played = self.timed("episode, recorded", lambda: list(engine.run([Episode(0, checkpoint, case, recording)])))
        results = [outcome for outcome in played if isinstance(outcome, EpisodeResult)]
        summary = summarize(accepted, Verdict.OK, load, results, 0.0, judge.state.remaining)
        self.timed("feedback written", lambda: staged.write(summary, load, results))
        self.timed("feedback synced, published", lambda: staged.publish(paths.feedback / f"part_{number:03}"))
        source = paths.feedback / f"part_{number:03}"
        shown = shown_files(source, summary, FeedbackLevel.TRAJECTORY)
        self.timed("delivery", lambda: copy_to_workspace(source, paths.workspace, shown))
        self.timed("all from the charge on", lambda: execute(judge, accepted))


def parts(folder: Path, count: int) -> None:
    with open_run(folder / "parts", task=TASK, **OPTIONS) as owner:
        write_policy(owner.paths.system)
        measured = Parts(owner.judge)
        for number in range(count):
            measured.once(number)
    print("| part | ms |")
    print("|---|---|")
    for name, seconds in measured.marks.items():
        print(f"| {name} | {1e3 * statistics.median(seconds[1:]):.1f} |")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SUBMISSIONS
    with tempfile.TemporaryDirectory() as folder:
        through_the_door(Path(folder), count + 1)
        parts(Path(folder), count + 1)


if __name__ == "__main__":
    main()
