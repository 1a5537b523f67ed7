"""Run hostile policies: one engine for all attacks of a level, an honest policy after each, and a check for damage.

`python attack_runner.py LEVEL...` runs all attacks and prints one JSON line for each outcome. The tests start it this
way to run the attacks as another user.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

from attack_corpus import HERE, Attack, corpus
from attack_host import Host

from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport
from evopolicygym.execution.worker import Worker
from evopolicygym.limits import Limits
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.zygote import NUMPY
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.tasks.splits import Case, Split
from evopolicygym.tasks.task import FailureReturn, Task

STDIO_CHARACTERS, ERROR_CHARACTERS = 64 << 10, 20 << 10
TASK = Task(
    id="arena:Arena-v0",
    env_id="arena:Arena-v0",
    title="The arena",
    family="attacks",
    horizon=20,
    observation_space="",
    action_space="",
    objective="Break out.",
    reward="1 for a breach.",
    termination="After twelve steps.",
    failure_return=FailureReturn(-1.0, "No reward is negative."),
    limits=Limits(init_cpu_s=1.0, act_cpu_s=0.2, episode_cpu_s=2.0, memory_mb=512),
)


LETTER = "a file of the checkpoint"
IN_JUDGE = """
import arena, sys
sys.path.insert(0, ".")
seed = int(sys.argv[1])
import attack
print(attack.attack())
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one attack, of the host around it (damage), and of the judge (harm)."""

    attack: str
    level: Level
    outcomes: tuple[str, ...]
    damage: tuple[str, ...]
    harm: tuple[str, ...]
    text: str

    @classmethod
    def from_json(cls, line: str) -> Self:
        data = json.loads(line)
        return cls(**data | {"level": Level(data["level"])})

    def complaint(self, attack: Attack) -> str:
        """Return how the outcome differs from the expected one; empty if it does not."""
        acceptable = attack.acceptable(self.level)
        unexpected = [outcome for outcome in self.outcomes if outcome not in acceptable]
        if acceptable == ("breach",):
            unexpected = [] if "breach" in self.outcomes else ["no breach"]
        damage = [] if "breach" in self.outcomes else [*self.damage]
        if not unexpected and not damage and not self.harm:
            return ""
        verdict = f"{self.outcomes} where {acceptable} is due at {self.level}; {[*damage, *self.harm]}"
        return f"{attack.name}: {verdict}\n{attack.why}\n\n{self.text}"


class Plays(Protocol):
    """The part of an engine that the attacks use."""

    store: CheckpointStore

    def run(self, episodes: Iterable[Episode]) -> Iterator[EpisodeResult | FaultReport]: ...

    def close(self) -> None: ...


class OldKernel:
    """A worker in this very process, with Landlock as an older kernel has it: an engine has no such setting.
    ``processes`` are those that it started; other tests start some from this process, too."""

    def __init__(self, store: Path, landlock_abi: int) -> None:
        of_others = set(_descendants(os.getpid()))
        self.store = CheckpointStore(store)
        with LocalEngine(TASK, levels=(Level.B,), store=store) as engine:
            self._worker = Worker(engine._settings)
        self._worker._zygotes[NUMPY].close()
        self._zygote = self._worker._zygotes[NUMPY] = Zygote(Level.B, store, max_landlock_abi=landlock_abi)
        self.processes = [pid for pid in _descendants(os.getpid()) if pid not in of_others]

    def run(self, episodes: Iterable[Episode]) -> Iterator[EpisodeResult | FaultReport]:
        return map(self._worker.play, episodes)

    def close(self) -> None:
        self._zygote.close()


class Runner:
    """One engine at one level for all attacks: that it is the same at the end is part of the proof."""

    def __init__(self, level: Level, landlock_abi: int | None = None) -> None:
        self.level = level
        with ExitStack() as stack:
            self.host = stack.enter_context(closing(Host()))
            store = self.host.folder / "store"
            self._engine = OldKernel(store, landlock_abi) if landlock_abi else LocalEngine(TASK, 1, (level,), store)
            stack.callback(self._engine.close)
            self._close = stack.pop_all().close
        self._seed = secrets.randbits(60) << 3
        mask = secrets.randbits(63)
        self._facts = self.host.facts() | {
            "store": str(store),
            "processes": self._judge(),
            "mask": mask,
            "masked_seed": self._seed ^ mask,
        }
        self._facts["other"] = self._checkpoint(HERE / "honest_policy.py", "other", notes=self.host.canary).hash
        self._clean = self._checkpoint(HERE / "honest_policy.py", "clean")
        self._processes = self._census()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def run(self, attack: Attack) -> Outcome:
        checkpoint = self._checkpoint(attack.path, attack.name)
        results = [self._play(checkpoint, number) for number in range(attack.episodes)]
        letter = self._engine.store.folder(checkpoint) / "letter.json"
        outcome = Outcome(
            attack.name,
            self.level,
            tuple(_name(result) for result in results),
            (*self.host.damage(), *_changed(letter)),
            tuple(self._harm(results)),
            "\n".join(_text(result) for result in results),
        )
        self.host.restore()
        return outcome

    def run_in_judge(self, attack: Attack) -> bool:
        """Return whether the attack succeeds in a process that holds the secrets and has files open."""
        folder = self.folder(attack.path, attack.name)
        with open(self.host.folder / "secret.txt") as secret:
            command = [sys.executable, "-c", IN_JUDGE, str(self._seed)]
            done = subprocess.run(command, cwd=folder, pass_fds=[secret.fileno()], capture_output=True, text=True)
        shutil.rmtree(folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1] == "True"

    def folder(self, attack: Path, name: str, **files: str) -> Path:
        """Return a policy folder that contains ``attack``."""
        folder = self.host.folder / "policies" / name
        folder.mkdir(parents=True)
        for source, target in ((HERE / "policy.py", "policy.py"), (HERE / "kit.py", "kit.py"), (attack, "attack.py")):
            shutil.copy(source, folder / target)
        for file, text in {"facts": json.dumps(self._facts), "letter": LETTER, "notes": "", **files}.items():
            (folder / f"{file}.json").write_text(text)
        return folder

    def _checkpoint(self, attack: Path, name: str, **files: str) -> Checkpoint:
        folder = self.folder(attack, name, **files)
        checkpoint = self._engine.store.snapshot(folder)
        shutil.rmtree(folder)
        (self._engine.store.folder(checkpoint) / "letter.json").chmod(0o644)  # like the files of Python itself
        return checkpoint

    def _play(self, checkpoint: Checkpoint, number: int = 0) -> EpisodeResult | FaultReport:
        """The lowest bits of the seed number the episodes of one attack."""
        case = Case(TASK.id, Split.HELDOUT, 0, self._seed | number)
        return next(iter(self._engine.run([Episode(number=number, checkpoint=checkpoint, case=case)])))

    def _harm(self, results: list[EpisodeResult | FaultReport]) -> Iterator[str]:
        """Return the damage to the judge."""
        clean = self._play(self._clean)
        if isinstance(clean, FaultReport) or clean.error or clean.score != 1.0:
            yield f"the honest policy did not score 1 afterwards: {clean}"
        if not any(self._census() == self._processes for _ in _patiently()):
            yield f"the judge's processes and descriptors were {self._processes} and are now {self._census()}"
        for result in results:
            if isinstance(result, FaultReport):
                yield f"the judge reports a fault of its own: {result.text}"
            elif max(len(result.stdout), len(result.stderr)) > STDIO_CHARACTERS:
                yield "more was printed than the judge keeps"
            elif result.error and len(result.error.text) > ERROR_CHARACTERS:
                yield "more was complained than the judge keeps"

    def _judge(self) -> list[int]:
        """Return the processes of the judge: the worker, its zygote and, at level A, the inner zygote."""
        if isinstance(self._engine, OldKernel):
            started = self._engine.processes
            return [os.getpid(), *dict.fromkeys(pid for first in started for pid in (first, *_descendants(first)))]
        worker = self._engine._workers[0]._process.pid
        return [worker, *_descendants(worker)]

    def _census(self) -> dict[int, int]:
        """Return the descriptors of each process of the judge: an attack may neither replace nor add one."""
        return {pid: _open_files(pid) for pid in self._judge()}


def _descendants(pid: int) -> list[int]:
    parents = _parents()
    pids = [pid]
    for ancestor in pids:
        pids += [child for child, parent in parents.items() if parent == ancestor]
    return pids[1:]


def _parents() -> dict[int, int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
    return parents


def _open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return -2  # it has just ended
    except PermissionError:
        return -1  # at level A without root: the zygote is in a user namespace of its own


def _patiently() -> Iterator[None]:
    """Wait until the zygote has cleaned up, which it does after its response."""
    for _ in range(20):
        yield
        time.sleep(0.01)


def _changed(letter: Path) -> list[str]:
    return [] if letter.exists() and letter.read_text() == LETTER else ["the checkpoint was changed"]


def _name(result: EpisodeResult | FaultReport) -> str:
    if isinstance(result, FaultReport):
        return "fault"
    if result.return_so_far > 0:
        return "breach"
    return str(result.error.kind) if result.error else "held"


def _text(result: EpisodeResult | FaultReport) -> str:
    if isinstance(result, FaultReport):
        return result.text
    return "\n".join([result.error.text if result.error else "", result.stdout, result.stderr])[-4000:]


def main(levels: list[str]) -> None:
    for level in map(Level, levels):
        with Runner(level) as runner:
            for attack in corpus():
                if level is not Level.NONE or attack.can_be_shown:
                    print(json.dumps(asdict(runner.run(attack))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
