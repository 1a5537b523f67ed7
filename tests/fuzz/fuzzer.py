"""Run every command that reads run folders on mutants of real ones, and check it: documented exit codes, no traceback,
bounded time and memory, nothing outside touched, nothing of the reader's files in the output.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from mutants import mutate

HERE = Path(__file__).parent
CANARY = "a-secret-canary-of-the-reader"
CODES = (0, 1, 2, 3, 4)
REFUSED, STOPPED = 2, 143
READING = tuple("verify report analyze leaderboard compare load_runs suite import transcript tail".split())
COLLECTIONS = ("report", "analyze", "leaderboard", "load_runs")  # a run that cannot be read is left out of them
OWNING = ("score", "score-all", "finish", "serve", "resume")
MEMORY = 4 << 30
CPU_S, WALL_S = 120, 600


@dataclass
class Figures:
    mutants: int = 0
    commands: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")

    def __str__(self) -> str:
        ended = ", ".join(f"{name} {count}" for name, count in sorted(self.codes.items()))
        most = f"slowest {self.slowest}, largest {self.largest} MiB"
        own = resource.getrusage(resource.RUSAGE_SELF)
        spent = {"fuzzer": own.ru_utime + own.ru_stime} | self.cpu_s
        times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in spent.items())
        return f"{self.mutants} mutants, {self.commands} commands; {most}; {ended}; CPU seconds: {times}"


class Fuzzer:
    """``bases``: folders of real runs by name, each with the name of its task."""

    def __init__(self, work: Path, bases: Sequence[tuple[Path, str]]) -> None:
        self.work, self.bases, self.figures = work, bases, Figures()
        self._watched: dict[Path, tuple[str, str]] = {}  # stamp and content of folders that must not change
        self.suite, self.outside = work / "suite", work / "outside"
        self._environment = {
            "HOME": str(work / "home"),  # packages of others write there when they are imported
            "EVOPOLICYGYM_SEAL_KEY_FILE": str(self.outside / "seal.key"),
            "PYTHONPATH": str(HERE.parent),
        }

    def __enter__(self) -> Self:
        _make_outside(self.outside, self.bases[0][0])
        (self.work / "cwd").mkdir()
        (self.work / "home").mkdir()
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "forkserver.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)},
        )  # fmt: skip
        assert self._server.stdout and self._server.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.kill()
        self._server.communicate()
        remove(self.suite)

    def mutant(self, seed: int, commands: Sequence[str] = (*READING, *OWNING)) -> list[str]:
        """Return the problems that the commands had with the mutant of this seed."""
        rng = random.Random(seed)
        base, task = rng.choice(self.bases)
        run = self._place(base, task)
        said = f"seed {seed}, {base.name}: {mutate(rng, run, self.outside)}"
        self._watch(self.outside)
        self._watch(run)
        self.figures.mutants += 1
        problems = [f"{problem} [{said}]" for name in commands for problem in self._check(name, run, task)]
        if self._has_changed(self.outside):
            problems.append(f"something outside was touched [{said}]")
            shutil.rmtree(self.outside)
            _make_outside(self.outside, self.bases[0][0])
        if any(CANARY.encode() in content for content in _contents(run)):
            problems.append(f"the canary is in the run folder now [{said}]")
        return problems

    def _place(self, base: Path, task: str) -> Path:
        """Put the mutant into a suite, beside an intact run."""
        self._watched.clear()
        remove(self.suite)
        name = f"{task.replace('/', '-').replace(':', '-')}__starter__s0"
        shutil.copytree(base, run := self.suite / "runs" / name, symlinks=True)
        shutil.copytree(self.bases[3][0], self.suite / "runs" / "whole", symlinks=True)
        (self.suite / "suite.toml").write_text(f'name = "s"\ntasks = ["{task}"]\n[agents.starter]\n')
        for parent, _, _ in os.walk(run):
            os.chmod(parent, 0o755)
        return run

    def _check(self, name: str, run: Path, task: str) -> Iterator[str]:
        out, err, page = (self.work / part for part in ("out", "err", "report.html"))
        for path in (out, err, page):
            path.unlink(missing_ok=True)
        remove(self.work / "cwd" / "imported")
        if run not in self._watched:
            self._watch(run)
        ended = self._ask(_argv(name, run, task, page), out, err, name == "serve")
        shown = "".join(path.read_text(errors="replace") for path in (out, err, page) if path.exists())
        self._count(name, ended)
        allowed = (*CODES, STOPPED) if name == "serve" else CODES
        if ended["timed_out"] or ended["code"] not in allowed or "Traceback (most recent" in shown:
            yield f"{name} ended with {ended}: {err.read_text(errors='replace')[-1500:]}"
        if CANARY in shown:
            yield f"{name} shows the canary"
        if name in COLLECTIONS and ended["code"] == REFUSED:
            yield f"{name} shows nothing of the intact run beside the mutant: {err.read_text(errors='replace')[-500:]}"
        if name in READING:
            if self._has_changed(run):
                yield f"{name} has changed the run"
        else:
            del self._watched[run]

    def _watch(self, folder: Path) -> None:
        """Note what a folder holds."""
        self._watched[folder] = (stamp(folder), tree(folder))

    def _has_changed(self, folder: Path) -> bool:
        """Return whether a folder holds anything else than at the last look. Files are read again only if their times
        of change differ, which no program can set."""
        before, content = self._watched[folder]
        if stamp(folder) == before:
            return False
        self._watch(folder)
        return self._watched[folder][1] != content

    def _ask(self, argv: list[str], out: Path, err: Path, waits: bool) -> dict[str, Any]:
        # `serve` opens a new run where none has begun, for which it may make a key; nothing else may.
        environment = self._environment | ({"EVOPOLICYGYM_SEAL_KEY": "0" * 64} if waits else {})
        job = {"argv": argv, "cwd": str(self.work / "cwd"), "out": str(out), "err": str(err), "waits": waits,
               "environment": environment, "memory": MEMORY, "cpu_s": CPU_S, "wall_s": WALL_S}  # fmt: skip
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        ended: dict[str, Any] = json.loads(self._server.stdout.readline())
        return ended

    def _count(self, name: str, ended: dict[str, Any]) -> None:
        figures = self.figures
        figures.commands += 1
        figures.codes[f"{name}:{ended['code']}"] += 1
        figures.cpu_s[name] += ended["cpu_s"]
        figures.slowest = max(figures.slowest, (ended["seconds"], name))
        figures.largest = max(figures.largest, (ended["mib"], name))


def _argv(name: str, run: Path, task: str, page: Path) -> list[str]:
    runs, here = str(run.parent), str(run)
    return {
        "verify": ["verify", here, "--jobs", "1"],
        "report": ["report", runs, "-o", str(page)],
        "analyze": ["analyze", runs, "--json"],
        "leaderboard": ["leaderboard", runs, "--json"],
        "compare": ["compare", here, str(run.parent / "whole"), "--json"],
        "load_runs": ["load_runs", runs],
        "transcript": ["transcript", here],
        "tail": ["tail", here, "--no-follow"],
        "import": ["import", here, "--folder", "imported"],
        "suite": ["suite", "status", str(run.parent.parent)],
        "score": ["score", here, "--jobs", "1"],
        "score-all": ["score", here, "--all-checkpoints", "--jobs", "1", "--json"],
        "finish": ["finish", here, "--jobs", "1"],
        "serve": ["serve", task, "--run", here, "--jobs", "1", "--json"],
        "resume": ["run", "--resume", here, "--jobs", "1"],
    }[name]


def tree(root: Path) -> str:
    """Return what a folder holds: names, kinds, modes and contents of small files, without times."""
    whole = hashlib.sha256()
    for path in _walk(root):
        facts = os.lstat(path)
        content = _content(path, facts)
        whole.update(f"{os.path.relpath(path, root)} {facts.st_mode:o} {content}\n".encode(errors="replace"))
    return whole.hexdigest()


def stamp(root: Path) -> str:
    """Return a hash of names, sizes and times of change: equal ones mean that nothing was written."""
    whole = hashlib.sha256()
    for path in _walk(root):
        facts = os.lstat(path)
        whole.update(
            f"{path} {facts.st_ino} {facts.st_mode} {facts.st_size} {facts.st_ctime_ns}\n".encode("utf-8", "replace")
        )
    return whole.hexdigest()


def _walk(root: Path) -> Iterator[str]:
    """Yield everything below a folder, as deep as our own files can lie."""
    for parent, folders, names in os.walk(root):
        folders.sort()
        yield from (os.path.join(parent, name) for name in sorted((*folders, *names)))
        if parent.count("/") - str(root).count("/") > 21:
            folders.clear()


def _content(path: str, facts: os.stat_result) -> str:
    if os.path.islink(path):
        return os.readlink(path)
    if not os.path.isfile(path) or facts.st_size > 16 << 20:
        return str(facts.st_size)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _contents(run: Path) -> Iterator[bytes]:
    for path in _walk(run):
        if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_size < 16 << 20:
            yield Path(path).read_bytes()


def _make_outside(outside: Path, run: Path) -> None:
    (outside / "folder").mkdir(parents=True)
    (outside / "fresh").mkdir()
    for name in ("secret", "secret.toml", "folder/policy.py", "folder/summary.json", "folder/turn_001.out"):
        (outside / name).write_text(f'{CANARY} = "{CANARY}"\n')
    os.mkfifo(outside / "pipe")
    os.mkfifo(outside / "pipe.toml")
    shutil.copytree(run, outside / "run", symlinks=True)


def remove(folder: Path) -> None:
    """Remove a folder, also one that is deeper than a path may be long, which no function of Python removes."""
    if not folder.exists():
        return
    with suppress(OSError, RecursionError):
        for parent, _, _ in os.walk(folder):
            os.chmod(parent, 0o755)
        shutil.rmtree(folder)
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
