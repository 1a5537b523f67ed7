"""Write figures as PDF: the shapes of their SVG, drawn by matplotlib with the font embedded.

Reads only the subset of SVG that `svg.py` and its callers write.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Final, Literal
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure as Sheet
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Transform

from evopolicygym.report.svg import INK, NAMESPACE, OPACITY, TEXT_SIZE, Figure

PIXELS_PER_INCH: Final = 96.0
POINTS: Final = 72.0 / PIXELS_PER_INCH  # of one pixel
SETTINGS: Final[Any] = {"pdf.fonttype": 42, "font.family": "DejaVu Sans"}  # text stays text
ANCHORS: Final[Mapping[str, Literal["center", "right"]]] = {"middle": "center", "end": "right"}
COMMANDS: Final = re.compile(r"([MLHVZ])|(-?\d+(?:\.\d+)?)")
Element = ElementTree.Element


@dataclass(frozen=True)
class _Shape:
    element: Element
    transform: Transform


def write_pdf(figure: Figure, path: File) -> None:
    """Write a figure as PDF, without a date: the same figure gives the same bytes."""
    drawing = ElementTree.fromstring(figure.standalone())
    width, height = _number(drawing, "width"), _number(drawing, "height")
    sheet = Sheet(figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH))
    page = Affine2D().scale(1 / width, -1 / height).translate(0, 1) + sheet.transFigure
    for shape in _shapes(drawing, Affine2D()):
        sheet.add_artist(_artist(shape, page))
    metadata = {"Title": figure.title, "Subject": figure.caption, "Creator": "EvoPolicyGym", "CreationDate": None}
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # shown as an empty box
        sheet.savefig(path, format="pdf", metadata=metadata)


def _shapes(element: Element, around: Transform) -> Iterator[_Shape]:
    transform = _transform(element.get("transform", "")) + around
    name = _name(element)
    if name in PATHS or name == "text":
        yield _Shape(element, transform)
    elif name in ("svg", "g"):
        for child in element:
            yield from _shapes(child, transform)


def _name(element: Element) -> str:
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def _transform(text: str) -> Affine2D:
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", text)]
    if text.startswith("translate"):
        return Affine2D().translate(*numbers)
    return Affine2D().rotate_deg_around(numbers[1], numbers[2], numbers[0]) if numbers else Affine2D()


def _artist(shape: _Shape, page: Transform) -> Text | PathPatch:
    return _text(shape, page) if _name(shape.element) == "text" else _patch(shape, page)


def _text(shape: _Shape, page: Transform) -> Text:
    element, classes = shape.element, shape.element.get("class", "").split()
    x, y = shape.transform.transform((_number(element, "x"), _number(element, "y")))
    matrix = shape.transform.get_matrix()
    return Text(
        x, y, element.text or "", transform=page, color=INK, alpha=_opacity(classes), parse_math=False,
        fontsize=float(element.get("font-size", TEXT_SIZE)) * POINTS, verticalalignment="baseline",
        horizontalalignment=next((ANCHORS[name] for name in classes if name in ANCHORS), "left"),
        rotation=-math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])), rotation_mode="anchor",
    )  # fmt: skip


def _patch(shape: _Shape, page: Transform) -> PathPatch:
    element, classes = shape.element, shape.element.get("class", "").split()
    width = float(element.get("stroke-width", 1.0))
    return PathPatch(
        PATHS[_name(element)](element), transform=shape.transform + page, alpha=_opacity(classes), capstyle="butt",
        facecolor="none" if classes else element.get("fill", "none"), joinstyle="miter",
        edgecolor=element.get("stroke", INK if classes else "none"), linewidth=width * POINTS,
        linestyle=_dashes(element.get("stroke-dasharray", "none"), width),
    )  # fmt: skip


def _opacity(classes: list[str]) -> float:
    return min((OPACITY[name] for name in classes if name in OPACITY), default=1.0)


def _dashes(pattern: str, width: float) -> Any:
    """Return dashes in units of the line width, as matplotlib counts them."""
    return "solid" if pattern == "none" else (0, [float(part) / width for part in pattern.split()])


def _number(element: Element, name: str) -> float:
    return float(element.get(name, 0.0))


def _line(element: Element) -> Path:
    x1, y1, x2, y2 = (_number(element, name) for name in ("x1", "y1", "x2", "y2"))
    return Path([(x1, y1), (x2, y2)])


def _rect(element: Element) -> Path:
    x, y, width, height = (_number(element, name) for name in ("x", "y", "width", "height"))
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    return Path(corners, closed=True)


def _circle(element: Element) -> Path:
    return Path.circle((_number(element, "cx"), _number(element, "cy")), _number(element, "r"))


def _path(element: Element) -> Path:
    points: list[tuple[float, float]] = []
    codes: list[int] = []
    for command, numbers in _commands(element.get("d", "")):
        x, y = points[-1] if points else (0.0, 0.0)
        reached = {"H": [*numbers, y], "V": [x, *numbers], "Z": [x, y]}.get(command, numbers)
        points.append((reached[0], reached[1]))
        codes.append({"M": int(Path.MOVETO), "Z": int(Path.CLOSEPOLY)}.get(command, int(Path.LINETO)))
    return Path(points, codes)


def _commands(text: str) -> Iterator[tuple[str, list[float]]]:
    command, numbers = "", list[float]()
    for letter, number in COMMANDS.findall(text):
        if letter and command:
            yield command, numbers
        command, numbers = (letter, []) if letter else (command, [*numbers, float(number)])
    yield command, numbers


PATHS: Final[dict[str, Callable[[Element], Path]]] = {"line": _line, "rect": _rect, "circle": _circle, "path": _path}


def write_figures(drawn: Sequence[Figure], folder: File) -> None:
    """Write each figure as SVG and as PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in drawn:
        (folder / f"{figure.name}.svg").write_text(figure.standalone(), encoding="utf-8")
        write_pdf(figure, folder / f"{figure.name}.pdf")
