from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_helpers import Page, read, source, three_agents, write_run

from evopolicygym.report.page import write_page
from evopolicygym.report.pdf import write_figures
from evopolicygym.report.report_data import collect_report
from evopolicygym.report.svg import Figure
from evopolicygym.tasks.ids import comparable_id


def make(runs: Path, out: Path) -> tuple[Page, list[Figure]]:
    drawn = write_page(collect_report([runs], out.parent), out)
    return read(out), drawn


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return *make(three_agents(folder / "runs"), folder / "report.html"), folder


def test_it_has_every_figure_and_table(made):
    page, drawn, _ = made
    names = {figure.name for figure in drawn}
    for task in ("01-core16-acrobot", "02-core16-reacher"):
        assert {f"{task}-curves", f"{task}-steps", f"{task}-timeline", f"{task}-scores-1"} <= names
    assert {"edit-kinds", "edit-sizes", "learning-1"} <= names
    assert sum(tag == "svg" for tag, _ in page.tags) == len(drawn)
    text = "".join(page.text)
    for words in ("Hit rates (Table 4)", "Structure of the selected code (Table 3)", "95 % interval", "cost: means",
                  "what the feedback was worth", "every run changed its policy after the first"):  # fmt: skip
        assert words in text


def test_runs_under_other_conditions_share_no_figure_and_no_row(tmp_path):
    made = [source("a = 1", validation=1), source("a = 2", validation=2)]
    for number in range(2):
        write_run(tmp_path / f"runs/plain{number}", made)
    shifted = write_run(tmp_path / "runs/shifted", made)
    fingerprint = shifted.facts["ids"]["fingerprint"] | {"variant": {"name": "shifted", "key": "k", "shift": "s"}}
    shifted.facts["ids"] |= {"fingerprint": fingerprint, "comparable_id": comparable_id(fingerprint)}
    shifted.facts["options"]["variant"] = "shifted"
    shifted.rewrite()
    page, drawn = make(tmp_path / "runs", tmp_path / "report.html")
    titles = {figure.name: figure.title for figure in drawn}
    for name in ("edit-kinds", "edit-sizes", "01-core16-acrobot-curves", "01-core16-acrobot-steps"):
        assert titles[name].endswith(", conditions: full text")
        assert titles[f"{name}-2"].endswith(", conditions: full text, shifted")
    (timeline,) = (figure for figure in drawn if figure.name.endswith("timeline"))
    hovers = re.findall("<title>(.*?)</title>", "".join(str(figure.body) for figure in drawn), re.DOTALL)
    assert any(hover.startswith("tuner") and "\ntuner" in hover for hover in hovers), "who the entrant is"
    assert str(timeline.body).count(">full text, plain, trajectory<") == 2
    assert str(timeline.body).count(">full text, shifted, trajectory<") == 1
    text = "".join(page.text)
    for words in ("full text, shiftedtunertuningparametric111", "full texttunertuningparametric222"):
        assert words in text


def test_axes_are_labelled(made):
    text = "".join(made[0].text)
    for label in ("episodes consumed", "best validation mean so far", "steps of train episodes",
                  "normalised, mean over tasks", "submission", "share of edits (%)",
                  "size of the edit", "held-out mean return"):  # fmt: skip
        assert label in text


def test_every_submission_is_listed_with_its_kind_and_diff(made):
    page, _, folder = made
    runs = len(list((folder / "runs").iterdir()))
    rows = sum(attributes.get("class") == "feedback" for tag, attributes in page.tags if tag == "td")
    assert rows == runs * 15
    text = "".join(page.text)
    for word in (
        "synthesis",
        "parametric",
        "rollback",
        "retest",
        "failed",
        "new best",
        "the same checkpoint as before",
    ):
        assert word in text
    assert "-GAIN = " in text and "+GAIN = " in text


def test_nothing_is_fetched_and_nothing_runs(made):
    page, _, folder = made
    assert not re.search(r"https?:|//|@import|url\(", (folder / "report.html").read_text().replace("<!doctype", ""))
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in page.tags}
    policy = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_what_is_wide_scrolls_in_its_own_box(made):
    text = (made[2] / "report.html").read_text()
    assert len(re.findall(r"<table", text)) + len(re.findall(r"<svg", text)) == len(re.findall(r'class="scroll"', text))


def test_figures_are_files_of_their_own(made):
    _, drawn, folder = made
    write_figures(drawn, folder / "figures")
    assert {path.stem for path in (folder / "figures").iterdir()} == {figure.name for figure in drawn}
    for path in (folder / "figures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_same_runs_give_the_same_page(made, tmp_path):
    folder = made[2]
    write_page(collect_report([folder / "runs"], folder), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()


def test_a_run_without_any_score_is_a_page_too(tmp_path):
    write_run(tmp_path / "runs" / "r", [source("broken(", validation=None, verdict="import_error")])
    page, _ = make(tmp_path / "runs", tmp_path / "report.html")
    assert "import_error" in "".join(page.text)


def test_a_film_is_linked_from_where_the_page_lies(tmp_path):
    write_run(tmp_path / "runs" / "javascript:x #1", [source("def act(o): return 0\n")])
    film = tmp_path / "runs" / "javascript:x #1" / "feedback" / "submit_001" / "episodes" / "ep_000" / "video.mp4"
    film.parent.mkdir(parents=True)
    film.write_bytes(b"film")
    page, _ = make(tmp_path / "runs", tmp_path / "runs" / "report.html")
    links = [a["href"] for tag, a in page.tags if tag == "a" and not str(a["href"]).startswith("#")]
    assert links == ["javascript%3Ax%20%231/feedback/submit_001/episodes/ep_000/video.mp4"]


def test_a_broken_run_is_named_and_the_rest_is_told(tmp_path):
    write_run(tmp_path / "runs" / "good", [source("def act(o): return 0\n")])
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.json").write_text("{")
    page, _ = make(tmp_path / "runs", tmp_path / "report.html")
    text = "".join(page.text)
    assert "Left out" in text and "bad" in text and "good" in text
