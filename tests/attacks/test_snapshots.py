"""Attacks on the snapshot: trees that would change their meaning when copied, or have no end.

The sandbox cannot stop these: what the snapshot accepts belongs to the policy. These are attacks 12, 13 and 63."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicygym.sandbox.checkpoints import MAX_BYTES, MAX_DEPTH, MAX_FILES, CheckpointStore, SnapshotRefused

SECRET = "a secret of the host"


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "store")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret.txt").write_text(SECRET)
    folder = tmp_path / "system"
    folder.mkdir()
    (folder / "policy.py").write_text("class Policy: ...\n")
    return folder


def bind_socket(tree: Path) -> None:
    here = os.getcwd()
    os.chdir(tree)  # the path of a socket may not be long
    socket.socket(socket.AF_UNIX).bind("channel")
    os.chdir(here)


def nest(tree: Path, depth: int = MAX_DEPTH + 2) -> None:
    tree.joinpath(*["deeper"] * depth).mkdir(parents=True)


def sparse(tree: Path, size: int = 1 << 40) -> None:
    with open(tree / "weights.bin", "wb") as file:
        file.truncate(size)


def fill(tree: Path, make: Callable[[Path], object]) -> None:
    for number in range(MAX_FILES + 1):
        make(tree / f"n{number}")


TREES: dict[str, Callable[[Path], object]] = {
    "a link to a file": lambda tree: (tree / "data").symlink_to("../secret.txt"),
    "a link to a folder": lambda tree: (tree / "data").symlink_to("../secrets"),
    "a link to itself": lambda tree: (tree / "data").symlink_to("data"),
    "a link to nothing": lambda tree: (tree / "data").symlink_to("nothing"),
    "a link deep inside": lambda tree: (nest(tree, 3), (tree / "deeper/deeper/data").symlink_to("/etc/passwd")),
    "a link in the place of a stripped folder": lambda tree: (tree / "__pycache__").symlink_to("../secrets"),
    "a hard link": lambda tree: os.link(tree.parent / "secret.txt", tree / "data"),
    "a pipe": lambda tree: os.mkfifo(tree / "data"),
    "a socket": bind_socket,
    "a terabyte of zeros": sparse,
    "a byte too many": lambda tree: sparse(tree, MAX_BYTES),
    "too many files": lambda tree: fill(tree, Path.touch),
    "too many folders": lambda tree: fill(tree, Path.mkdir),
    "folders without end": nest,
    "a name with a line break": lambda tree: (tree / "a\nb").touch(),
    "a name with an escape sequence": lambda tree: (tree / "\x1b[2J").touch(),
    "a name that reads backwards": lambda tree: (tree / "\u202eyp.py").touch(),
    "a name that is no text": lambda tree: Path(os.fsdecode(os.fsencode(tree) + b"/\xff\xfe")).touch(),
    "a name without end": lambda tree: (tree / ("x" * 250)).touch(),
}
if os.geteuid() == 0:
    TREES["a device"] = lambda tree: os.mknod(tree / "data", 0o20666, os.makedev(1, 5))


@pytest.mark.parametrize("plant", TREES.values(), ids=TREES)
def test_unsafe_trees_are_refused(store, tree, plant):
    plant(tree)
    with pytest.raises(SnapshotRefused):
        store.snapshot(tree)
    assert list(store.root.iterdir()) == []  # nothing half-copied stays


def test_the_folder_itself_may_not_be_a_link(store, tree):
    (tree.parent / "link").symlink_to(tree)
    with pytest.raises(SnapshotRefused):
        store.snapshot(tree.parent / "link")


def swapped_for_link(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.symlink_to(path.parent.parent / ("secrets" if path.name == "lib" else "secret.txt"))


def swapped_for_pipe(path: Path) -> None:
    path.rename(path.with_name("old"))
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [swapped_for_link, swapped_for_pipe])
@pytest.mark.parametrize("name", ["data", "lib"])
def test_a_file_that_is_swapped_while_it_is_copied_is_refused(store, tree, monkeypatch, swap, name):
    """It is swapped after the copy has checked it, just before it is opened."""
    (tree / "data").write_text("harmless")
    (tree / "lib").mkdir()
    really_open = os.open

    def open_late(path, *arguments, **options):
        if path == name and not (tree / "old").exists():
            swap(tree / name)
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", open_late)
    with pytest.raises(SnapshotRefused):
        store.snapshot(tree)


def test_a_file_that_vanishes_while_it_is_copied_is_refused(store, tree, monkeypatch):
    """An agent that keeps deleting files gets a refusal, not a fault of the judge."""
    really_list = os.listdir
    monkeypatch.setattr(os, "listdir", lambda place: [*really_list(place), "vanished.py"])
    with pytest.raises(SnapshotRefused):
        store.snapshot(tree)


def says(folder: Path, module: str) -> str:
    command = [sys.executable, "-c", f"import {module}; print({module}.WORD)"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()


def test_bytecode_is_not_copied(store, tree):
    """Attack 63: the code that runs is not the code that is shown."""
    (tree / "evil.py").write_text("WORD = 'bytecode'")
    for target in (importlib.util.cache_from_source(str(tree / "helper.py")), str(tree / "ghost.pyc")):
        py_compile.compile(
            str(tree / "evil.py"), target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    (tree / "helper.py").write_text("WORD = 'source'")
    copy = store.folder(store.snapshot(tree))
    assert (says(tree, "helper"), says(tree, "ghost")) == ("bytecode", "bytecode")
    assert (says(copy, "helper"), says(copy, "ghost")) == ("source", "")


def test_an_empty_folder_changes_the_hash(store, tree):
    """Python imports an empty folder, so that with and without it are two policies."""
    without = store.snapshot(tree)
    (tree / "package").mkdir()
    assert store.snapshot(tree).hash != without.hash


def test_copies_are_read_only(store, tree):
    copy = store.folder(store.snapshot(tree))
    assert (copy.stat().st_mode & 0o777, (copy / "policy.py").stat().st_mode & 0o777) == (0o555, 0o444)
