"""Files that somebody else may have written: only plain ones are read, never through a link, never beyond a bound."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from evopolicygym.files import is_folder, list_files, open_folder, read_file, read_text_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("plain")
    return root


def test_plain_files_are_read(root):
    assert read_file(root, "a/b/file", 5) == b"plain"
    assert list_files(root, "", 1, 2) == ["a/b/file"] and list_files(root, "a", 1, 1) == ["b/file"]
    assert is_folder(root, "a/b") and is_folder(root, "") and not is_folder(root, "a/b/file")


def test_links_are_not_followed_wherever_they_are(root, tmp_path):
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    for name in ("file", "folder/secret", "loop", "loop/x"):
        with pytest.raises(OSError, match="a link, which is not followed"):
            read_file(root, name, 100)
    assert not is_folder(root, "folder") and not is_folder(root, "loop")
    assert list_files(root, "", 9, 9) == ["a/b/file", "file", "folder", "loop"]
    link = tmp_path / "link"
    link.symlink_to(root)
    assert read_file(link, "a/b/file", 5) == b"plain"  # what a person names may be one


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a\0b", "\ud800", "", "x" * 5000])
def test_names_that_lead_elsewhere_are_none(root, name):
    with pytest.raises(OSError):
        read_file(root, name, 100)


def test_what_is_no_plain_file_is_not_read(root):
    """A pipe that nobody writes to would be waited for."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        for name in ("pipe", "socket", "a"):
            with pytest.raises(OSError):
                read_file(root, name, 100)
    with pytest.raises(OSError, match="not a plain file"):
        read_text_file(Path("/dev/zero"))
    with pytest.raises(OSError, match="not a plain file"):
        read_text_file(root / "pipe")


def test_sizes_numbers_and_depths_are_bounded(root):
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file(root, "a/b/file", 4)
    with open(root / "sparse", "wb") as file:
        file.truncate(8 << 40)
    with pytest.raises(OSError, match="larger than"):
        read_file(root, "sparse", 1 << 30)
    with pytest.raises(OSError, match="more than 1 files"):
        list_files(root, "", 1, 9)
    with pytest.raises(OSError, match="nested too deep"):
        list_files(root, "", 9, 1)


def test_descriptors_are_given_back(root):
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a/b", "a/nothing", "a/b/file", "../x"):
        try:
            with open_folder(root, name):
                pass
        except OSError:
            pass
    assert len(os.listdir("/proc/self/fd")) == before
