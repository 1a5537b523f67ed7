"""Inside the limited process: read one checkpoint's source and print what it looks like, as JSON.

Parsing runs no agent code, but a parser can be made to eat memory, take for ever or overflow its stack. So the limits
come first, and whatever happens after them happens to this process alone. Standard library only.
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
    gc.disable()  # large trees are made once and kept to the end: looking for garbage would double the time
    print(json.dumps(read_code(Path(folder))))


def read_code(folder: Path) -> dict[str, Any]:
    """The fields of ``records.run.Code``."""
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
    """A file that does not parse stands for itself: any change of it is a new shape."""
    return f"bytes {file.digest}" if file.tree is None else tree_text(file.tree, numbers)
