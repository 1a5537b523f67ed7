from __future__ import annotations

import difflib
import random
import tempfile
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.report.diffs import MAX_CHARACTERS, MAX_LINES, diff, read_tree

LINES = st.lists(st.sampled_from("abcdef"), max_size=30)


def of_texts(before, after):
    with tempfile.TemporaryDirectory() as folder:
        trees = []
        for name, text in (("before", before), ("after", after)):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "policy.py").write_text(text)
            trees.append(read_tree(Path(folder) / name))
        return diff(*trees)


def shown(before, after):
    return [line.text for line in of_texts("\n".join(before), "\n".join(after)).lines]


@given(LINES, LINES)
def test_applying_it_gives_the_second_text(before, after):
    """Hunks name their place and hold all that changed."""
    before, after = ["start", *before], ["start", *after]
    result, at = [], 0
    for text in shown(before, after)[2:]:
        if text.startswith("@@"):
            start = int(text.split()[1][1:].split(",")[0]) - 1
            result, at = [*result, *before[at:start]], start
        elif text[0] == "+":
            result.append(text[1:])
        else:
            assert before[at] == text[1:]
            result, at = [*result, *([text[1:]] if text[0] == " " else [])], at + 1
    assert [*result, *before[at:]] == after


def test_it_reads_as_difflib_writes():
    before, after = ["a", "b", "c", "d", "e", "f", "g"], ["a", "b", "c", "x", "e", "f", "g"]
    expected = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    assert shown(before, after)[2:] == expected


def test_it_is_bounded_in_length_and_time():
    draw = random.Random(0)
    before, after = ([str(draw.randrange(40)) for _ in range(20_000)] for _ in range(2))
    began = time.perf_counter()
    diff = of_texts("\n".join(before), "x" * 9999 + "\n" + "\n".join(after))
    assert time.perf_counter() - began < 5
    assert len(diff.lines) == MAX_LINES and diff.cut
    assert all(len(line.text) <= MAX_CHARACTERS for line in diff.lines)


def test_links_and_large_and_binary_files_are_named_only(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "c" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "c" / "big").write_bytes(b"x" * (1 << 20))
    (tmp_path / "c" / "binary").write_bytes(b"\0\1")
    texts = [line.text for line in diff({}, read_tree(tmp_path / "c")).lines]
    assert texts.count("(binary, or too large to show)") == 3
    assert "secret" not in "".join(texts)
    again = diff(read_tree(tmp_path / "c"), read_tree(tmp_path / "c"))
    assert [line.text for line in again.lines][:2] == ["--- link", "+++ link"]
    assert len(again.lines) == 3


def test_the_policy_comes_first(tmp_path):
    for name in ("a.py", "policy.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert diff({}, read_tree(tmp_path)).lines[1].text == "+++ policy.py"


def test_hashing_is_bounded_over_all_files(tmp_path):
    """A stranger's checkpoint may hold thousands of large files that take no room on the disk."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a.txt").write_text("control")
    for number in range(4):
        with (tmp_path / "checkpoint" / f"file{number}").open("wb") as file:
            file.truncate(40 << 20)
    tree = read_tree(tmp_path / "checkpoint")
    assert tree and len(tree) == 5
    assert [file.path for file in tree.values() if file.digest] == ["a.txt", "file0"]
