"""Finding runs: broken ones are named, and files of agents are never taken for records."""

from __future__ import annotations

import pytest
from synthetic_records import synthetic_run, write

from evopolicygym.analysis.loading import collect_runs, split_by_size
from evopolicygym.errors import UserError


def test_runs_are_found_at_any_depth(tmp_path):
    write([synthetic_run(name="one"), synthetic_run(name="two")], tmp_path / "deep" / "er")
    assert [run.id for run in collect_runs(tmp_path).runs] == ["one", "two"]


def test_the_path_of_a_single_run_is_collected(tmp_path):
    write([synthetic_run(name="one")], tmp_path)
    assert [run.id for run in collect_runs(tmp_path / "000").runs] == ["one"]
    assert [run.id for run in collect_runs(tmp_path / "000" / "run.json").runs] == ["one"]


def test_broken_and_half_written_runs_are_named_and_left_out(tmp_path):
    write([synthetic_run(name="good")], tmp_path)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"schema_version": 1, "id"')
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "ledger.jsonl").write_text("")
    collected = collect_runs(tmp_path)
    assert [run.id for run in collected.runs] == ["good"]
    assert [skipped.path.rsplit("/", 1)[1] for skipped in collected.skipped] == ["torn", "young"]
    assert [skipped.kind for skipped in collected.skipped] == ["broken", "unfinished"]


def test_a_record_that_an_agent_wrote_into_its_workspace_is_not_read(tmp_path):
    write([synthetic_run(name="honest")], tmp_path)
    write([synthetic_run((1e9,), name="forged")], tmp_path / "000" / "workspace" / "system")
    assert [run.id for run in collect_runs(tmp_path).runs] == ["honest"]


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_without_runs_is_a_user_error(tmp_path, make):
    folder = tmp_path / "runs"
    if make:
        folder.mkdir()
    with pytest.raises(UserError):
        collect_runs(folder)


def test_records_beyond_the_bytes_of_a_collection_are_named_and_left_out(tmp_path):
    write([synthetic_run(name=str(number)) for number in range(3)], tmp_path)
    folders = sorted(tmp_path.iterdir())
    sizes = [(folder / "run.json").stat().st_size for folder in folders]
    within, beyond = split_by_size([tmp_path / "missing", *folders], limit=sizes[0] + sizes[1])
    assert within == [tmp_path / "missing", *folders[:2]]
    assert [skip.path for skip in beyond] == [str(folders[2])] and "name fewer" in beyond[0].reason
