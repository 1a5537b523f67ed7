"""The documentation ships with the package, and messages name pages that are there."""

from __future__ import annotations

import re
from pathlib import Path

import evopolicygym
from conftest import TESTS
from server_helpers import command

SOURCE = Path(evopolicygym.__file__).parent
DOCS = TESTS.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def test_pages_are_listed_and_printed():
    listed = command("docs").stdout
    names = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in PAGES}
    assert {line.split()[0] for line in listed.splitlines()} == set(names)
    assert command("docs", "tasks").stdout == (DOCS / "tasks.md").read_text()
    tutorial = (DOCS / "tutorials" / "compare-two-agents.md").read_text()
    for name in ("compare-two-agents", "tutorials/compare-two-agents", "docs/tutorials/compare-two-agents.md"):
        assert command("docs", name).stdout == tutorial


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


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere():
    pages = [*TESTS.parent.glob("*.md"), *PAGES, *(TESTS.parent / "examples").rglob("README.md")]
    targets = [(page, link) for page in pages for link in LINK.findall(page.read_text()) if "://" not in link]
    assert len(targets) > 50
    dead = []
    for page, link in targets:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{page.name}: {link}")
    assert not dead


def test_every_page_is_in_the_index_by_question():
    index = DOCS / "README.md"
    linked = {link.partition("#")[0] for link in LINK.findall(index.read_text())}
    assert {page.relative_to(DOCS).as_posix() for page in PAGES} - {index.name} <= linked
    assert "docs/README.md" in LINK.findall((TESTS.parent / "README.md").read_text())
