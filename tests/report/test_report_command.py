from __future__ import annotations

import json

import pytest
from report_helpers import source, write_run
from typer.testing import CliRunner

from evopolicygym.cli.main import _app
from evopolicygym.errors import UserError
from evopolicygym.record_checks import fingerprint_id


def report(*arguments):
    return CliRunner().invoke(_app(), ["report", *map(str, arguments)])


def test_the_page_and_its_figures_are_written(tmp_path):
    write_run(tmp_path / "r", [source("x = 1\n", validation=1.0), source("x = 2\n", validation=2.0)])
    done = report(tmp_path / "r", "-o", tmp_path / "page.html", "--figures", tmp_path / "figures", "--json")
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    assert printed["runs"] == 1 and printed["skipped"] == []
    expected = {f"{name}.{kind}" for name in printed["figures"] for kind in ("svg", "pdf")}
    assert expected == {path.name for path in (tmp_path / "figures").iterdir()}
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_skipped_run_is_exit_code_1(tmp_path):
    write_run(tmp_path / "r", [source("x = 1\n", validation=1.0)])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{}")
    assert report(tmp_path, "-o", tmp_path / "page.html").exit_code == 1
    assert (tmp_path / "page.html").exists()


def test_a_page_in_no_folder_is_refused(tmp_path):
    write_run(tmp_path / "r", [source("x = 1\n", validation=1.0)])
    done = report(tmp_path / "r", "-o", tmp_path / "nowhere" / "page.html")
    assert isinstance(done.exception, UserError)
    assert isinstance(report(tmp_path / "r", "-o", tmp_path).exception, UserError)


def test_a_page_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path):
    write_run(tmp_path / "r", [source("x = 1\n", validation=1.0)])
    error = report(tmp_path / "r", "-o", "/proc/page.html").exception
    assert isinstance(error, UserError) and error.message.startswith("/proc/page.html cannot be written: ")


@pytest.mark.parametrize("left", ["page.html"])
def test_nothing_but_the_page_is_left(tmp_path, left):
    write_run(tmp_path / "runs" / "r", [source("x = 1\n", validation=1.0)])
    (tmp_path / "out").mkdir()
    report(tmp_path / "runs", "-o", tmp_path / "out" / left)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [left]


def test_a_record_of_another_person_may_lack_any_fact_of_its_conditions(tmp_path):
    """A page of two runs, of which one states less; each fact in turn, and all of them."""
    write_run(tmp_path / "runs" / "whole", [source("x = 1\n", validation=1.0)])
    written = write_run(tmp_path / "runs" / "other", [source("x = 1\n", validation=1.0)])
    whole = dict(written.facts["ids"]["fingerprint"])
    accepted = []
    for missing in [[name] for name in whole] + [list(whole)]:
        facts = {name: fact for name, fact in whole.items() if name not in missing}
        written.facts["ids"] |= {"fingerprint": facts, "comparable_id": fingerprint_id("c", facts)}
        written.rewrite()
        done = report(tmp_path / "runs", "-o", tmp_path / "page.html")
        assert done.exit_code in (0, 1) and not isinstance(done.exception, Exception), (missing, done.exception)
        assert done.exit_code == 1 or "other" in (tmp_path / "page.html").read_text(), missing
        accepted += [name for name in missing if done.exit_code == 0]
    assert "budget" in accepted
