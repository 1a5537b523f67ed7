"""The documentation ships with the package, and messages name pages that are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

import evopolicygym
from conftest import TESTS
from evopolicygym.cli.main import _app
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


FENCE = re.compile(r"^```(?:sh)?\n(.*?)^```", re.M | re.S)
SHELL = {"|", "&&", ";", "&", ">", "2>", "<"}


def typed_commands(page: Path) -> Iterator[list[str]]:
    """Yield the words after `evopolicygym` of each command line in the code blocks of a page."""
    for block in FENCE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("evopolicygym "):
                words = shlex.split(line, comments=True)[1:]
                ends = [number for number, word in enumerate(words) if word in SHELL]
                yield words[: ends[0]] if ends else words


def test_commands_in_code_blocks_are_understood():
    root = typer.main.get_command(_app())
    typed = [(page, words) for page in (TESTS.parent / "README.md", *PAGES) for words in typed_commands(page)]
    assert len(typed) > 50
    wrong = {}
    for page, words in typed:
        level, remaining = root, list(words)
        try:
            while hasattr(level, "commands") and remaining[0][0] != "-":
                level = level.commands[remaining.pop(0)]
            level.make_context(level.name, remaining)  # raises for an unknown option, and for an argument too many
        except Exception as error:
            wrong[f"{page.name}: {' '.join(words)}"] = repr(error)
    assert not wrong
