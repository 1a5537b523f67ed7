"""Figures as PDF: everything that the SVG shows, and always the same bytes."""

from __future__ import annotations

import re
import zlib
from xml.etree import ElementTree

import pytest
from markupsafe import Markup
from report_helpers import three_agents

from evopolicygym.report.page import write_page
from evopolicygym.report.pdf import write_pdf
from evopolicygym.report.report_data import collect_report
from evopolicygym.report.svg import Figure, element, group, svg_text

SHAPES = ("line", "rect", "circle", "path")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdf")
    return write_page(collect_report([three_agents(folder / "runs", seeds=1)], folder), folder / "page.html")


def drawing(path) -> str:
    """The operators of the page, one on a line; its stream is the first."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", path.read_bytes(), re.S)
    return zlib.decompress(streams[0]).decode("latin-1")


def count(figure: Figure, *names: str) -> int:
    tags = [element.tag.split("}")[1] for element in ElementTree.fromstring(figure.standalone()).iter()]
    return sum(tags.count(name) for name in names)


def test_every_text_and_every_shape_is_drawn(drawn, tmp_path):
    for figure in drawn:
        write_pdf(figure, tmp_path / "figure.pdf")
        operators = drawing(tmp_path / "figure.pdf")
        assert len(re.findall(r"\bBT\b", operators)) >= count(figure, "text")
        assert len(re.findall(r"^(?:S|B|f)$", operators, re.M)) > count(figure, *SHAPES)  # and the page itself


def test_the_same_figure_gives_the_same_bytes(drawn, tmp_path):
    for name in ("one", "other"):
        write_pdf(drawn[0], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert b"CreationDate" not in (tmp_path / "one").read_bytes()


@pytest.mark.parametrize("text", ["$x^2$", r"\frac{1", "日本語", "a\u0301", "<b>&amp;", "_" * 500, ""])
def test_any_name_can_be_drawn(text, tmp_path, recwarn):
    body = group([svg_text(10, 20, text, "middle"), element("path", d="M0 0L10.5 -3H4V2Z", fill="#009E73")])
    write_pdf(Figure("name", text or "title", 200, 50, Markup(body)), tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert not recwarn.list
