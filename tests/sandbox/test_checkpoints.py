"""A checkpoint is a read-only copy by content, named by its content."""

from __future__ import annotations

import os
import stat

import pytest

from evopolicygym.sandbox.checkpoints import CheckpointStore, SnapshotRefused, remove_tree


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "store")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "pkg").mkdir(parents=True)
    (folder / "policy.py").write_text("import pkg.tools\n")
    (folder / "pkg" / "tools.py").write_text("x = 1\n")
    (folder / "weights.bin").write_bytes(bytes(1000))
    return folder


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_has_the_content_of_the_folder(store, source):
    checkpoint = store.snapshot(source)
    assert tree(store.folder(checkpoint)) == tree(source)
    assert (checkpoint.files, checkpoint.bytes, checkpoint.has_policy) == (4, 1023, True)
    assert not checkpoint.uses_scipy


def test_the_copy_is_read_only(store, source):
    folder = store.folder(store.snapshot(source))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {0o444, 0o555}


def test_equal_content_has_one_name_and_one_copy(store, source):
    first = store.snapshot(source)
    os.utime(source / "policy.py", (1, 1))
    os.chmod(source / "policy.py", 0o755)
    assert store.snapshot(source) == first
    assert len(list(store.root.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "policy.py").write_text("import pkg.tools \n"),
        lambda folder: (folder / "weights.bin").rename(folder / "weights.dat"),
        lambda folder: (folder / "note.txt").touch(),
    ],
)
def test_other_content_has_another_name(store, source, change):
    first = store.snapshot(source)
    change(source)
    assert store.snapshot(source).hash != first.hash


def test_bytecode_is_left_out(store, source):
    plain = store.snapshot(source)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "policy.cpython-311.pyc").write_bytes(b"poison")
    (source / "pkg" / "tools.pyc").write_bytes(b"poison")
    assert store.snapshot(source) == plain


def test_too_large_folders_are_refused_without_a_trace(store, source):
    (source / "big.bin").write_bytes(bytes(64 << 20))
    with pytest.raises(SnapshotRefused, match="more than 64 MiB"):
        store.snapshot(source)
    (source / "big.bin").unlink()
    (source / "many").mkdir()
    for number in range(4000):
        (source / "many" / str(number)).touch()
    with pytest.raises(SnapshotRefused, match="more than 4000 files and folders"):
        store.snapshot(source)
    assert list(store.root.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(store, tmp_path):
    with pytest.raises(SnapshotRefused, match="is not a folder"):
        store.snapshot(tmp_path / "nowhere")


@pytest.mark.parametrize("depth", [3, 3000])
def test_a_tree_of_any_depth_is_removed(tmp_path, depth):
    tree = tmp_path / "tree"
    tree.mkdir()
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(depth):
        with open(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor), "w") as file:
            file.write("x")
        os.mkdir("inner", dir_fd=descriptor)
        inner = os.open("inner", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    remove_tree(tree)
    assert not tree.exists()
