"""Edit size: the share of lines that a shortest diff adds and deletes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import source, write_run

from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.edits.kinds import MAX_SHARED_LINES, SizeClass, common_lines, edit_size, size_class
from evopolicygym.analysis.loading import open_run_folder

LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12)


def table_of(before: list[bytes], after: list[bytes]) -> int:
    """Longest common subsequence by the textbook."""
    row = [0] * (len(after) + 1)
    for one in before:
        previous = row[:]
        for place, other in enumerate(after):
            row[place + 1] = previous[place] + 1 if one == other else max(previous[place + 1], row[place])
    return row[-1]


@given(LINES, LINES)
def test_common_lines_are_the_longest_common_subsequence(before, after):
    assert common_lines(before, after) == table_of(before, after)


def test_more_lines_than_a_machine_word():
    before = [b"%d" % number for number in range(500)]
    after = before[250:] + before[:250]
    assert common_lines(before, after) == 250


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        ({"a": [b"1"]}, {"a": [b"1"]}, 0.0),
        ({"a": [b"1", b"2"]}, {"a": [b"1", b"3"]}, 2 / 4),
        ({"a": [b"1"]}, {"a": [b"1"], "b": [b"1", b"2"]}, 2 / 4),
        ({"a": [b"1"]}, {"b": [b"1"]}, 1.0),
        ({"a": []}, {"a": []}, 0.0),
    ],
)
def test_size_is_added_and_deleted_over_all(before, after, size):
    assert edit_size(before, after) == size == edit_size(after, before)


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (0.0, SizeClass.SAME),
        (1e-9, SizeClass.SMALL),
        (0.05, SizeClass.SMALL),
        (0.0501, SizeClass.MEDIUM),
        (0.2, SizeClass.MEDIUM),
        (0.5, SizeClass.LARGE),
        (0.51, SizeClass.REWRITE),
        (1.0, SizeClass.REWRITE),
    ],
)
def test_a_size_on_a_bound_counts_as_the_smaller_class(size, name):
    assert size_class(size) is name


def test_too_many_shuffled_lines_are_not_compared():
    many = [b"%d" % number for number in range(MAX_SHARED_LINES + 2)]
    assert common_lines(many, many) == len(many)
    assert common_lines(many, many[::-1]) is None
    assert edit_size({"a": many, "b": []}, {"a": many[::-1], "b": []}) is None


def test_sizes_of_a_run(tmp_path):
    """Blank lines and trailing blanks do not count; comments and looks do."""
    lines = [f"x{number} = {number}" for number in range(20)]
    texts = ["\n".join(lines), "\n\n".join(lines) + "  \n", "\n".join([*lines[:-1], "x = 7"]), "y = 1"]
    events = diagnose(open_run_folder(write_run(tmp_path / "run", [source(text) for text in texts]).folder)).timeline
    assert [event.edit_size for event in events] == [None, 0.0, 2 / 40, 21 / 21]
    assert [event.size for event in events] == [None, SizeClass.SAME, SizeClass.SMALL, SizeClass.REWRITE]


def test_sizes_are_unknown_without_the_checkpoints(tmp_path):
    written = write_run(tmp_path / "run", [source("x = 1"), source("x = 1"), source("x = 2")])
    (written.folder / "checkpoints").rename(tmp_path / "elsewhere")
    events = diagnose(open_run_folder(written.folder)).timeline
    assert [event.edit_size for event in events] == [None, 0.0, None]


def test_records_cannot_point_outside_of_their_checkpoint(tmp_path):
    (tmp_path / "outside.py").write_text("x = 1\n")
    written = write_run(tmp_path / "run", [source("x = 1"), source("x = 2")])
    for checkpoint in written.facts["checkpoints"]:
        checkpoint["code"]["bundle"] = ["../../../outside.py"]
    written.rewrite()
    assert diagnose(open_run_folder(written.folder)).timeline[1].edit_size is None
