"""The page in a real browser: wide and narrow screens, dark mode and print."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools import Browser
from report_helpers import source, three_agents, whole_collection, write_run
from test_report_escapes import hostile

from evopolicygym.report.page import write_page
from evopolicygym.report.report_data import collect_report

SAMPLE = Path(__file__).parents[2] / "examples" / "runs"
PAPER = 718  # pixels: A4 without its margins
LOOKS = {
    "desk": (1280, "light", "screen"),
    "telephone": (390, "light", "screen"),
    "desk in the dark": (1280, "dark", "screen"),
    "telephone in the dark": (390, "dark", "screen"),
    "paper": (PAPER, "light", "print"),
    "paper of somebody in the dark": (PAPER, "dark", "print"),
}
FIGURES_AT_LEAST = {"sample": 8, "study": 8, "collection": 50, "hostile": 5, "injected": 3}
OPEN_ALL = 'document.querySelectorAll("details").forEach(one => { one.open = true })'
# Whatever reaches out of the page, but for what lies in a box that scrolls by itself.
OUTSIDE = """
[...document.body.querySelectorAll("*")].filter(one => !one.parentElement.closest(".scroll, pre, svg"))
  .filter(one => { const r = one.getBoundingClientRect(); return r.width && (r.right > innerWidth + 1 || r.left < -1) })
  .map(one => one.outerHTML.slice(0, 120))
"""
FIGURES = """
[...document.querySelectorAll("svg.figure")].map(one => {
  const r = one.getBoundingClientRect();
  const wide = [...one.querySelectorAll("text")].filter(text => {
    const t = text.getBoundingClientRect();
    return t.left < r.left - 1 || t.right > r.right + 1 || t.top < r.top - 1 || t.bottom > r.bottom + 1;
  });
  return {title: one.querySelector("title").textContent, width: r.width, height: r.height,
          shapes: one.querySelectorAll("path, circle, rect, line").length,
          labels: one.querySelectorAll("text").length, cut: wide.map(text => text.textContent)};
})
"""
# Relative luminance and contrast as WCAG 2 defines them.
CONTRAST = """
(() => {
  const light = colour => colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const colour = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const page = light(colour(getComputedStyle(document.body).backgroundColor));
  const paper = colour(getComputedStyle(document.body).backgroundColor);
  const seen = (ink, opacity) => colour(ink).map((v, i) => v * opacity + paper[i] * (1 - opacity));
  const against = one => { const l = light(one); return (Math.max(l, page) + 0.05) / (Math.min(l, page) + 0.05) };
  const styles = query => [...document.querySelectorAll(query)].map(one => getComputedStyle(one));
  const texts = styles("h1, p, td, figcaption").map(style => seen(style.color, 1));
  const labels = styles("svg text").map(style => seen(style.fill, Number(style.fillOpacity)));
  return {page, least: Math.min(...[...texts, ...labels].map(against))};
})()
"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The sample, a small study, a whole collection with costs, and names and code that only an enemy would choose."""
    folder = tmp_path_factory.mktemp("pages")
    three_agents(folder / "study")
    whole_collection(folder / "collection")
    for number in range(2):
        files = [source(f"value = '{'wide' * 2000}'\nx = {i}\n", validation=float(i)) for i in range(number + 30)]
        write_run(
            folder / "hostile" / ("long" * 50 + str(number)), files, agent="agent" * 60, task="core16/" + "t" * 200
        )
    runs = {
        "sample": SAMPLE,
        "study": folder / "study",
        "collection": folder / "collection",
        "hostile": folder / "hostile",
    }
    runs["injected"] = hostile(folder / "injected")
    for name, run_folder in runs.items():
        write_page(collect_report([run_folder], folder), folder / f"{name}.html")
    return folder


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", FIGURES_AT_LEAST)
def test_charts_are_there_and_nothing_overflows(name, look, pages, browser):
    width, scheme, media = LOOKS[look]
    browser.look(width, scheme, media)
    heard = browser.open(pages / f"{name}.html")
    assert not complaints(heard)
    assert requested(heard) == [(pages / f"{name}.html").as_uri()]
    browser.evaluate(OPEN_ALL)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OUTSIDE) == []
    figures = browser.evaluate(FIGURES)
    assert len(figures) >= FIGURES_AT_LEAST[name] and all(
        figure["width"] > 300 and figure["height"] > 40 for figure in figures
    )
    assert all(figure["shapes"] > 2 and figure["labels"] > 2 for figure in figures)
    assert [figure["cut"] for figure in figures if figure["cut"]] == []
    assert not complaints(browser.heard)


@pytest.mark.parametrize("look", LOOKS)
def test_text_can_be_read_against_the_page(look, pages, browser):
    browser.look(*LOOKS[look])
    browser.open(pages / "study.html")
    seen = browser.evaluate(CONTRAST)
    assert seen["least"] >= 4.5
    assert (seen["page"] < 0.05) is (look.endswith("in the dark") and "paper" not in look)


def test_a_figure_of_its_own(pages, browser, tmp_path):
    """Opened alone, as a file."""
    browser.look(1280)
    for figure in write_page(collect_report([pages / "study"], tmp_path), tmp_path / "page.html"):
        path = tmp_path / f"{figure.name}.svg"
        path.write_text(figure.standalone())
        assert not complaints(browser.open(path))
        assert browser.evaluate("document.documentElement.getBoundingClientRect().width") > 300


def complaints(heard):
    """Errors and warnings of the page, its style and its policy, however the browser tells them."""
    methods = {
        "Runtime.exceptionThrown",
        "Runtime.consoleAPICalled",
        "Log.entryAdded",
        "Network.loadingFailed",
        "Page.javascriptDialogOpening",
    }
    return [message for message in heard if message.get("method") in methods]


def requested(heard):
    wanted = [message["params"] for message in heard if message.get("method") == "Network.requestWillBeSent"]
    return [request["request"]["url"] for request in wanted]
