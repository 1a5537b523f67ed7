"""Child process of the version reader: prints the canonical facts of checkpoints, one line of JSON for each.

The line of a checkpoint is printed before the next one is read: if one of them takes too much, the facts of those
before it are not lost. The last line has the mechanisms of one of them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.edits.bundle import MAX_FILE_BYTES, Bundle, read_bundle
from evopolicygym.analysis.edits.canonical import CanonicalForm, canonical_form
from evopolicygym.analysis.edits.code_reader_child import source_text
from evopolicygym.analysis.edits.data_files import describe_file, is_read, joined
from evopolicygym.analysis.edits.mechanisms import Evidence, find_mechanisms
from evopolicygym.files import list_files, read_file
from evopolicygym.sandbox.limited_process import limit

MIB: Final = 1 << 20
CPU_S: Final = 20
MAX_STATEMENTS: Final = 4_000
MAX_FILES: Final = 4_000
MAX_DEPTH: Final = 16
MAX_LINE: Final = 160
RECURSION: Final = 5_000  # deeper trees are compared as they are


def main(selected: str, *folders: str) -> None:
    """Print the facts of the folders, and the mechanisms of ``selected`` unless it is empty."""
    limit(CPU_S, 2048 * MIB)
    sys.setrecursionlimit(RECURSION)
    gc.disable()
    for folder in folders:
        print(json.dumps(read_version(Path(folder))), flush=True)
    if selected:
        print(json.dumps(read_mechanisms(Path(selected))), flush=True)


def read_mechanisms(folder: Path) -> list[dict[str, Any]]:
    """Return the fields of ``versions.Mechanism`` for each mechanism of a checkpoint."""
    places = find_mechanisms(read_bundle(folder))
    return [{"name": name, "file": at.file, "line": at.line, "text": _line(folder, at)} for name, at in places.items()]


def _line(folder: Path, evidence: Evidence) -> str:
    text = read_file(folder, evidence.file, MAX_FILE_BYTES).decode(errors="replace")
    return next(islice(text.split("\n"), evidence.line - 1, None), "").strip()[:MAX_LINE]


def read_version(folder: Path) -> dict[str, Any]:
    """Return the fields of ``versions.CanonicalFacts`` of one checkpoint."""
    bundle = read_bundle(folder)
    form = _form(bundle, folder)
    data = [describe_file(path, read_file(folder, path, MAX_FILE_BYTES)) for path in _data_files(folder, bundle, form)]
    hidden = _hidden_sources(folder, bundle)
    return {
        "program": _hash(form.program, joined(file.values for file in data), hidden),
        "shape": _hash(form.shape, joined(file.structure for file in data), hidden),
        "code_shape": _hash(form.shape, hidden),
        "statements": [_short(statement) for statement in form.statements[:MAX_STATEMENTS]],
    }


def _form(bundle: Bundle, folder: Path) -> CanonicalForm:
    try:
        return canonical_form(bundle)
    except RecursionError:
        files = read_bundle(folder).files
        program, shape = ("\n".join(source_text(file, numbers) for file in files) for numbers in (True, False))
        return CanonicalForm(program, shape, (), frozenset(), lists_folders=True)


def _data_files(folder: Path, bundle: Bundle, form: CanonicalForm) -> list[str]:
    sources = {file.path for file in bundle.files}
    paths = list_files(folder, "", MAX_FILES, MAX_DEPTH)
    return [path for path in paths if path not in sources and not path.endswith(".py") and is_read(path, form)]


def _hidden_sources(folder: Path, bundle: Bundle) -> str:
    """Return the content of sources that the policy may import by a name that only running it tells."""
    if not bundle.unresolved:
        return ""
    sources = {file.path for file in bundle.files}
    paths = [path for path in list_files(folder, "", MAX_FILES, MAX_DEPTH) if path.endswith(".py")]
    return joined(
        f"{path} {hashlib.sha256(read_file(folder, path, MAX_FILE_BYTES)).hexdigest()}"
        for path in paths
        if path not in sources
    )


def _hash(*parts: str) -> str:
    digests = (hashlib.sha256(part.encode(errors="replace")).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _short(statement: str) -> str:
    return hashlib.sha256(statement.encode(errors="replace")).hexdigest()[:10]
