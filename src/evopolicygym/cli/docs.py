"""`evopolicygym docs`: the documentation of the installed version, which ships with the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.output import stdout
from evopolicygym.errors import UserError


def docs(
    page: Annotated[
        str | None, typer.Argument(help="Name of a page, such as agents; all pages are listed without it")
    ] = None,
) -> None:
    """Print a page of the documentation, or list the pages."""
    pages = {path.stem: path for path in sorted(_folder().glob("*.md"))}
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            stdout.print(f"{name:{width}}  {_title(path)}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise UserError(f"there is no page {page!r}", f"The pages are: {', '.join(pages)}.")
    sys.stdout.write(pages[name].read_text(encoding="utf-8"))


def _folder() -> Path:
    """Return where the pages lie: in the package, or beside `src` in a working copy."""
    package = Path(evopolicygym.__file__).parent
    shipped = package / "docs"
    return shipped if shipped.is_dir() else package.parents[1] / "docs"


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
