"""Hostile source code is parsed in a child process: it may die, the parent reports it and continues."""

from __future__ import annotations

import pytest
from run_folders import source, write_checkpoint, write_run

from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.edits import code_reader
from evopolicygym.analysis.edits.code_reader import MAX_FAILURES, SourceReader, code_facts
from evopolicygym.analysis.edits.code_reader_child import read_code
from evopolicygym.analysis.edits.kinds import EditKind, read_lines
from evopolicygym.analysis.loading import open_run_folder
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.run_record import Code
from evopolicygym.sandbox import limited_process

HOSTILE = {
    "a megabyte of parentheses": b"x = " + b"(" * 1_000_000,
    "closed parentheses": b"x = " + b"(" * 5000 + b")" * 5000,
    "a megabyte of signs": b"x = " + b"-" * 1_000_000 + b"1",
    "deep attributes": b"x = a" + b".a" * 300_000,
    "deep sums": b"x = a" + b"+a" * 300_000,
    "deep lambdas": b"x = " + b"lambda:" * 100_000 + b"1",
    "deep elifs": b"if a: pass\n" + b"elif a: pass\n" * 50_000,
    "a million digits": b"x = " + b"9" * 1_000_000,
    "null bytes": b"x = 1\0\0\0",
    "another encoding": "x = 'ü'".encode("utf-16"),
    "an unknown encoding": b"# coding: nonsense\nx = 1",
    "half a character": b"x = '\xff\xfe'",
    "sixty megabytes": b"a\n" * 30_000_000,
}


def checkpoint(folder, **files: str | bytes):
    return folder / write_checkpoint(folder, {f"{name}.py": data for name, data in files.items()})


def test_the_limited_process_reads_the_same_facts(tmp_path):
    folder = checkpoint(tmp_path, policy="import helper\nclass Policy:\n def act(self, o): return 1", helper="K = 1.5")
    assert code_facts(folder) == Code.model_validate(read_code(folder))
    assert code_facts(folder).bundle == ["helper.py", "policy.py"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_source_is_data(tmp_path, name):
    code = code_facts(checkpoint(tmp_path, policy=HOSTILE[name]))
    assert code.bundle == ["policy.py"]
    assert code.error


def test_a_number_of_a_million_digits_is_read(tmp_path):
    code = code_facts(checkpoint(tmp_path, policy=b"x = 0x" + b"f" * 1_000_000))
    assert code.error is None
    assert code.topology == code_facts(checkpoint(tmp_path, policy="x = 1")).topology


def test_code_of_the_policy_is_never_executed(tmp_path):
    mark = tmp_path / "mark"
    folder = checkpoint(
        tmp_path, policy=f"open({str(mark)!r}, 'w')\nimport json", json="raise SystemExit(3)", ast="1/0"
    )
    assert code_facts(folder).bundle == ["json.py", "policy.py"]
    assert not mark.exists()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("while True: pass", "reading it took more than 1 s of CPU time"),
        ("hoard = bytearray(4 << 30)", "reading it ended with exit code 1"),
        ("print('x' * (32 << 20))", "reading it ended with"),
        ("import os; os.abort()", "reading it ended with SIGABRT"),
        ("print('{}')", "the reader's answer makes no sense"),
        ("import time; time.sleep(60)", "reading it took more than 2 s"),
    ],
)
def test_a_reader_process_that_dies_is_reported(tmp_path, monkeypatch, body, says):
    """Whatever takes the child, by limits or by accident. The body runs in its place, under its limits."""
    child = (
        "import sys; sys.path.append(sys.argv[1]); from evopolicygym.analysis.edits import code_reader_child as c\n"
        "c.CPU_S = 1; "
        "c.read_code = lambda folder: {}; c.print = lambda text: None; c.main(sys.argv[3])\n"
    )
    monkeypatch.setattr(limited_process, "CODE", child + body)
    monkeypatch.setattr(limited_process, "WALL_PER_CPU", 2.0 if "sleep" in body else 60.0)
    monkeypatch.setattr(code_reader, "CPU_S", 1)
    code = code_facts(checkpoint(tmp_path, policy="x = 1", other="y = 2"))
    assert code.error.startswith(says)
    assert (code.tree, code.topology, code.bundle) == (None, None, ["other.py", "policy.py"])


def test_an_edit_of_unreadable_source_is_not_classified(tmp_path):
    steps = [source("x = 1"), source("x = 2"), source("x = 3"), source("x = 3")]
    written = write_run(tmp_path / "run", steps)
    written.facts["checkpoints"][1]["code"] |= {"tree": None, "topology": None, "error": "reading it took long"}
    written.rewrite()
    run = diagnose(open_run_folder(written.folder))
    assert [event.kind for event in run.timeline] == [
        EditKind.FIRST,
        EditKind.UNKNOWN,
        EditKind.UNKNOWN,
        EditKind.RETEST,
    ]
    assert run.edits[EditKind.UNKNOWN].n == 2


def test_after_some_failures_the_rest_of_a_run_is_not_parsed(tmp_path, monkeypatch):
    """Each may take all of its CPU time, and a run of others may have thousands."""
    mark, whole = tmp_path / "mark", limited_process.CODE
    reader, folder, other = SourceReader(), *(checkpoint(tmp_path, policy=f"x = {number}") for number in (1, 2))
    monkeypatch.setattr(limited_process, "CODE", f"open({str(mark)!r}, 'a').write('x')\nraise SystemExit(3)")
    errors = [reader.read(folder).error for _ in range(MAX_FAILURES - 1)]
    monkeypatch.setattr(limited_process, "CODE", whole)
    assert reader.read(folder).error is None, "control: still read"
    monkeypatch.setattr(limited_process, "CODE", f"open({str(mark)!r}, 'a').write('x')\nraise SystemExit(3)")
    errors += [reader.read(other).error for _ in range(4)]
    assert len(mark.read_text()) == MAX_FAILURES
    assert [str(error).startswith("not read") for error in errors] == [False] * MAX_FAILURES + [True] * 3


def test_checkpoints_with_the_same_source_are_parsed_once(tmp_path, monkeypatch):
    """A search submits a hundred that differ in their weights alone."""
    source = {"policy.py": "import helper\nx = 1", "helper.py": "K = 1"}
    same = [tmp_path / write_checkpoint(tmp_path, {**source, "weights.npz": data}) for data in ("1", "2")]
    others = [
        tmp_path / write_checkpoint(tmp_path, {**source, **files})
        for files in ({"helper.py": "K = 1; L = 2"}, {"helper/__init__.py": "K = 1"}, {"policy.py": "x = 1"})
    ]
    read, reader, folders = code_reader.run_limited, SourceReader(), []

    def counted(module, folder, **limits):
        folders.append(folder)
        return read(module, folder, **limits)

    monkeypatch.setattr(code_reader, "run_limited", counted)
    codes = [reader.read(folder) for folder in (*same, *others, *same)]
    assert folders == [str(folder) for folder in (same[0], *others)]
    assert codes == [Code.model_validate(read_code(folder)) for folder in (*same, *others, *same)]


def test_files_that_a_forged_record_names_are_read_with_a_bound(tmp_path):
    """Files without content on the disk take as long to read as others."""
    names = [f"f{number}.py" for number in range(40)]
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.truncate(2 << 20)
    assert read_lines(tmp_path, names, WorkLimit()) is None
    few = read_lines(tmp_path, names[:2] * 1_000, WorkLimit())
    assert few and list(few) == names[:2], "control"
