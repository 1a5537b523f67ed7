"""Run folders are hostile input: mutants of whole ones, and every command that reads them.

``FUZZ_SEED`` and ``FUZZ_MUTANTS`` choose other mutants, and how many (``FUZZ_FEW``: of the short test). A problem names
the seed of its mutant."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from fuzzer import CANARY, READING, Fuzzer

from conftest import TESTS
from reference_runs import first_version, third_version
from server_helpers import COMMAND

SEED = int(os.environ.get("FUZZ_SEED", "20260701"))
MUTANTS = int(os.environ.get("FUZZ_MUTANTS", "5000"))
SHARDS = 100
FEW = int(os.environ.get("FUZZ_FEW", "30"))
TOY, ACROBOT = "toys:Toy-v0", "core16/acrobot"
SMALL = ("--budget", "8", "--validation-cases", "1", "--heldout-cases", "1", "--seeds", "paper", "--jobs", "1")


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Fuzzer]]:
    """A run that is finished, one that is not, one that ships, and two of the reference code, each with its task."""
    folder = tmp_path_factory.mktemp("fuzz")
    tiny, unfinished = folder / "tiny", folder / "unfinished"
    played = [*COMMAND, "run", TOY, "--agent", "starter", *SMALL, "--run", str(tiny)]
    subprocess.run(played, check=True, capture_output=True, timeout=300)
    shutil.copytree(tiny, unfinished, symlinks=True)
    lines = (tiny / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    ended = next(number for number, line in enumerate(lines) if b'"kind":"closed"' in line)
    (unfinished / "ledger.jsonl").write_bytes(b"".join(lines[:ended]))
    shipped = TESTS.parent / "examples" / "runs" / "acrobot__starter__s0"
    ours = [(tiny, TOY), (tiny, TOY), (unfinished, TOY), (shipped, ACROBOT)]
    foreign = [(first_version(folder / "first"), ACROBOT), (third_version(folder / "third"), ACROBOT)]
    with Fuzzer(folder / "work", [*ours, *ours, *foreign]) as fuzzer:
        yield fuzzer


def test_the_fuzzer_sees_what_it_looks_for(fuzzer, tmp_path):
    """Its own control: commands that end well on what is whole, and a page that does show a canary."""
    run = fuzzer._place(*fuzzer.bases[0])
    for name in ("verify", "report", "analyze", "finish", "resume", "serve"):
        assert not list(fuzzer._check(name, run, TOY)), name
    assert set(fuzzer.figures.codes) >= {"verify:0", "report:0", "finish:0", "resume:0"}
    page = fuzzer.work / "report.html"
    checkpoint = next(path for path in (run / "checkpoints").iterdir())
    os.chmod(checkpoint, 0o755)
    (checkpoint / "note.txt").write_text(CANARY)
    assert [problem for problem in fuzzer._check("report", run, TOY) if "canary" in problem], page


@pytest.mark.timeout(900)
def test_no_mutant_of_a_few_hurts_a_reader(fuzzer):
    problems = [problem for number in range(FEW) for problem in fuzzer.mutant(SEED + number, _some(number))]
    assert not problems, "\n\n".join(problems)


def _some(number: int) -> tuple[str, ...]:
    """All of the commands that read, one after another, and of those that take a run over one for each mutant."""
    owning = ("finish", "score-all", "resume", "serve", "score")
    return READING[number % len(READING)], READING[(number + 4) % len(READING)], owning[number % len(owning)]


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_mutant_hurts_a_reader(fuzzer, shard, record_property):
    numbers = range(shard, MUTANTS, SHARDS)
    problems = [problem for number in numbers for problem in fuzzer.mutant(SEED + number)]
    record_property(f"shard {shard}", str(fuzzer.figures))
    assert not problems, "\n\n".join(problems)
