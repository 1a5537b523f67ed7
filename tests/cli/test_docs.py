"""The documentation ships with the package, and messages name pages that are there."""

from __future__ import annotations

import re
from pathlib import Path

import evopolicygym
from conftest import TESTS
from server_helpers import command

SOURCE = Path(evopolicygym.__file__).parent
DOCS = TESTS.parent / "docs"


def test_pages_are_listed_and_printed():
    listed = command("docs").stdout
    assert {line.split()[0] for line in listed.splitlines()} == {path.stem for path in DOCS.glob("*.md")}
    assert command("docs", "tasks").stdout == (DOCS / "tasks.md").read_text()


def test_an_unknown_page_is_named():
    refused = command("docs", "nonsense")
    assert refused.returncode == 2 and "tasks" in refused.stderr and "Traceback" not in refused.stderr


def test_every_page_that_the_source_names_is_there():
    named = set()
    for path in SOURCE.rglob("*"):
        if path.suffix in (".py", ".toml", ".j2"):
            text = path.read_text()
            named |= set(re.findall(r"evopolicygym docs ([a-z-]+)", text)) | set(
                re.findall(r"docs/([a-z-]+)\.md", text)
            )
    assert len(named) > 5
    assert not [name for name in named if not (DOCS / f"{name}.md").exists()]
