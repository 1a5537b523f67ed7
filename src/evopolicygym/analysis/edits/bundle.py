"""Source bundle of a checkpoint: policy.py and the local files that it imports. The code is parsed, never run.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.files import is_folder, open_folder, read_file

POLICY: Final = "policy.py"
MAX_SOURCE_BYTES: Final = 2 << 20
MAX_FILE_BYTES: Final = 64 << 20
MAX_CHECKPOINT_BYTES: Final = 64 << 20  # of all files: the judge stores no larger one
ERROR_CHARS: Final = 300
Module = tuple[str, ...]
RELEVANT: Final = (ast.Import, ast.ImportFrom, ast.Call)
IMPORT_CALLS: Final = frozenset({"import_module", "__import__"})
UNRESOLVABLE_CALLS: Final = frozenset({"spec_from_file_location", "run_path", "run_module"})


@dataclass(frozen=True)
class Imports:
    """Imports of one file. ``modules``: absolute names; `from a import b` gives a and a.b: b may be a submodule.
    ``unresolved``: import calls whose module is known only at run time, as ``line: function``."""

    modules: tuple[Module, ...]
    unresolved: tuple[str, ...]


def imports_of(tree: ast.Module, package: Module) -> Imports:
    """List the imports of a file, wherever the statements stand, and calls that import a literal name.

    ``package`` is where relative imports start; empty for files beside policy.py, where they cannot work.
    """
    modules: list[Module] = []
    unresolved: list[tuple[int, str]] = []
    nodes = [node for node in ast.walk(tree) if isinstance(node, RELEVANT)]
    import_calls = IMPORT_CALLS | _import_aliases(nodes)
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += _from(node, package)
        elif isinstance(node, ast.Call) and (name := called_name(node)) in import_calls | UNRESOLVABLE_CALLS:
            module = _literal(node, package) if name in import_calls else None
            if module is None:
                unresolved.append((node.lineno, f"{node.lineno}: {name}"))
            else:
                modules.append(module)
    return Imports(tuple(modules), tuple(text for _, text in sorted(unresolved)))


def _import_aliases(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the aliases of `from importlib import import_module as load` and the like."""
    aliases = (alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    return {alias.asname for alias in aliases if alias.name in IMPORT_CALLS and alias.asname}


def _from(node: ast.ImportFrom, package: Module) -> Iterator[Module]:
    base = _absolute(node.level, node.module or "", package)
    if base is not None:
        yield base
        yield from ((*base, alias.name) for alias in node.names)


def _absolute(level: int, name: str, package: Module) -> Module | None:
    """Resolve a relative name; None when the dots lead out of the folder, as in a file outside of packages."""
    own = tuple(name.split(".")) if name else ()
    if level == 0:
        return own
    return (*package[: len(package) - level + 1], *own) if level <= len(package) else None


def called_name(node: ast.Call) -> str:
    """Return the name of what is called, without what it belongs to; empty if it has none."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _literal(node: ast.Call, package: Module) -> Module | None:
    """Return the module that an import call names as a literal."""
    name = _text(_argument(node, 0, "name"))
    if not name:
        return None
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    return _absolute(level, relative, _package_argument(node, package) if level else package)


def _package_argument(node: ast.Call, package: Module) -> Module:
    """Return the package of `import_module(".x", "pkg")`; `__package__` and `__name__` mean the file's own."""
    argument = _argument(node, 1, "package")
    if isinstance(argument, ast.Name) and argument.id in ("__package__", "__name__"):
        return package
    text = _text(argument)
    return tuple(text.split(".")) if text else ()


def _argument(node: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(node.args) > position:
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@dataclass(frozen=True)
class SourceFile:
    """One source file. ``tree`` is None when it does not parse; ``error`` says why."""

    path: str
    digest: str
    lines: int
    tree: ast.Module | None
    error: str | None


@dataclass(frozen=True)
class Bundle:
    """Files of a policy, sorted by path. ``unresolved``: imports as ``file:line: function``."""

    files: tuple[SourceFile, ...]
    unresolved: tuple[str, ...]

    @property
    def hash(self) -> str:
        return hash_files({file.path: file.digest for file in self.files})


def hash_files(digests: dict[str, str]) -> str:
    """Hash paths and contents."""
    lines = "\n".join(f"{digest} {path}" for path, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()  # names may be no UTF-8


def read_bundle(folder: Path) -> Bundle:
    """Read policy.py and the local files that it imports; empty when there is no policy.py."""
    files: dict[str, SourceFile] = {}
    unresolved: list[str] = []
    waiting = [POLICY] if _is_file(folder, POLICY) else []
    while waiting:
        path = waiting.pop()
        if path not in files:
            files[path] = read_source(folder, path)
            imports = _imports(files[path])
            unresolved += [f"{path}:{text}" for text in imports.unresolved]
            waiting += [local for module in imports.modules for local in locate(folder, module)]
    return Bundle(tuple(files[path] for path in sorted(files)), tuple(sorted(unresolved)))


def read_source(folder: Path, path: str) -> SourceFile:
    """Read and parse one file. A file that is too large is hashed only, and its lines are not counted."""
    data = read_file(folder, path, MAX_FILE_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > MAX_SOURCE_BYTES:
        return SourceFile(path, digest, 0, None, f"{path}: larger than {MAX_SOURCE_BYTES >> 20} MiB, not parsed")
    lines = len(source_lines(data))
    try:
        return SourceFile(path, digest, lines, ast.parse(data), None)
    except Exception as error:  # parsing hostile source may raise anything; the error is recorded
        return SourceFile(path, digest, lines, None, _plain(f"{path}: {type(error).__name__}: {error}"))


def source_lines(data: bytes) -> list[bytes]:
    """Return lines that are not blank, without trailing whitespace."""
    return [line for raw in data.split(b"\n") if (line := raw.rstrip())]


def locate(folder: Path, module: Module) -> list[str]:
    """Return the local files that importing ``module`` runs, parent packages included, as Python resolves them."""
    files: list[str] = []
    if any(not part or "/" in part for part in module):  # a literal name must not lead out of the folder
        return files
    for length in range(1, len(module) + 1):
        path = "/".join(module[:length])
        if _is_file(folder, f"{path}/__init__.py"):
            files.append(f"{path}/__init__.py")
        elif _is_file(folder, f"{path}.py"):
            return [*files, f"{path}.py"]
        elif not is_folder(folder, path):
            return files
    return files


def _imports(file: SourceFile) -> Imports:
    package = tuple(file.path.split("/")[:-1])
    return Imports((), ()) if file.tree is None else imports_of(file.tree, package)


def _plain(text: str) -> str:
    """Shorten a text, and replace lone surrogates, which cannot be encoded."""
    return text[:ERROR_CHARS].encode(errors="replace").decode()


def _is_file(folder: Path, path: str) -> bool:
    """Return whether the path is a regular file that is reached without links."""
    try:
        with open_folder(folder, os.path.dirname(path)) as parent:
            return stat.S_ISREG(os.stat(os.path.basename(path), dir_fd=parent, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False
