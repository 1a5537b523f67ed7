"""Figures as files of their own, for papers and slides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evopolicygym.report.pdf import write_pdf
from evopolicygym.report.svg import Figure


def write_figures(drawn: Sequence[Figure], folder: Path) -> None:
    """Each as SVG and as PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in drawn:
        (folder / f"{figure.name}.svg").write_text(figure.standalone(), encoding="utf-8")
        write_pdf(figure, folder / f"{figure.name}.pdf")
