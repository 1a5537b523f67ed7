"""Child process of the code reader: reads the source of one checkpoint and prints facts about it as JSON.

Parsing runs no agent code, but hostile source can make a parser use up memory or time, or overflow its stack. The child
limits itself first, so that only the child dies of it. Standard library only.
"""

from __future__ import annotations

import gc
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.edits.bundle import Bundle, SourceFile, read_bundle
from evopolicygym.analysis.edits.syntax_tree import joined_hash, measure, total, tree_text
from evopolicygym.analysis.limited_process import limit

MIB: Final = 1 << 20
CPU_S: Final = 30
MAX_UNRESOLVED: Final = 100


def main(folder: str) -> None:
    limit(CPU_S, 2048 * MIB)
    gc.disable()  # large trees are kept to the end: garbage collection would double the time
    print(json.dumps(read_code(Path(folder))))


def read_code(folder: Path) -> dict[str, Any]:
    """Return the fields of ``run_record.Code``."""
    bundle = read_bundle(folder)
    trees = [file.tree for file in bundle.files if file.tree]
    errors = [file.error for file in bundle.files if file.error]
    return {
        "bundle": [file.path for file in bundle.files],
        "bundle_hash": bundle.hash,
        "tree": _hash(bundle, numbers=True),
        "topology": _hash(bundle, numbers=False),
        "unresolved": list(bundle.unresolved[:MAX_UNRESOLVED]),
        "error": next(iter(errors), None if bundle.files else "there is no policy.py"),
        "lines": sum(file.lines for file in bundle.files),
        **asdict(total(map(measure, trees))),
    }


def _hash(bundle: Bundle, numbers: bool) -> str | None:
    return joined_hash(_text(file, numbers) for file in bundle.files) if bundle.files else None


def _text(file: SourceFile, numbers: bool) -> str:
    """Return the text of a file's tree. A file that does not parse is represented by its digest."""
    return f"bytes {file.digest}" if file.tree is None else tree_text(file.tree, numbers)
