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
        str | None, typer.Argument(help="Name of a page, such as agents (default: list the pages).")
    ] = None,
) -> None:
    """Print a page of the documentation, or list the pages."""
    folder = _folder()
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            stdout.print(f"{name:{width}}  {_title(path)}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    paths = [path for page, path in pages.items() if name in (page, path.stem)]
    if not paths:
        raise UserError(f"there is no page {page!r}", f"The pages are: {', '.join(pages)}.")
    sys.stdout.write(paths[0].read_text(encoding="utf-8"))


def _folder() -> Path:
    """Return where the pages lie: in the package, or beside `src` in a working copy."""
    package = Path(evopolicygym.__file__).parent
    shipped = package / "docs"
    return shipped if shipped.is_dir() else package.parents[1] / "docs"


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
