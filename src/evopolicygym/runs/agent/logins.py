"""Logins of the user in the HOME of a run: copied for its agent, and copied back if its client renews them.

A provider accepts the token that renews a login only once, so a renewed login must replace the user's own. But a run
folder may come from another person, and HOME may hold programs of theirs, which would write a login of theirs. So
nothing is copied back from a HOME that this installation did not make. A note outside of the run folder says so, and
which logins were copied: a renewed one survives the death of the judge.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from evopolicygym.agents import home as agent_home
from evopolicygym.agents.definitions import Client
from evopolicygym.files import write_atomic
from evopolicygym.judge.shortage import to_stderr

NOTES: Final = "logins"  # below the user's configuration
log = logging.getLogger(__name__)


def copy_logins(home: Path, client: Client, is_new: bool, are_needed: bool) -> dict[str, bytes]:
    """Replace the logins in HOME by those of the user, if they are needed; return those that may be copied back.
    ``is_new``: this process made the folder."""
    note = _note(home)
    is_own = is_new or note.exists()
    _return_noted(home, client, note)
    for name in client.credentials:
        agent_home.remove(home, name)
    logins = agent_home.copy_credentials(client.credentials, Path.home(), home) if are_needed else {}
    if is_own and client.credentials:
        with suppress(OSError):  # without a note, a resumed run copies nothing back
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(note, json.dumps({name: _digest(data) for name, data in logins.items()}).encode())
    if logins and not is_own:
        names = ", ".join(f"~/{name}" for name in logins)
        to_stderr(f"{names} will not be replaced if the run renews it: another installation made the HOME of its agent")
    return logins if is_own else {}


def return_logins(home: Path, client: Client, copied: Mapping[str, bytes]) -> None:
    """Copy logins that were renewed back to the user's HOME, and report it."""
    for name, data in copied.items():
        if agent_home.return_renewed(name, data, home, Path.home()):
            text = f"~/{name} was replaced: the run changed its copy, as when {client.title} renews its login"
            log.info("%s", text)
            to_stderr(text)


def end_logins(home: Path, client: Client) -> None:
    """Return and remove the logins of a finished run: the process of its agent may have been killed before it did."""
    note = _note(home)
    _return_noted(home, client, note)
    for name in client.credentials:
        agent_home.remove(home, name)
    with suppress(OSError):
        note.unlink()


def _return_noted(home: Path, client: Client, note: Path) -> None:
    """Copy back what a killed process could not, if the user's login is still the one that was copied."""
    with suppress(OSError, ValueError, AttributeError):  # no note, or none of ours
        noted = json.loads(note.read_bytes())
        users = {name: (Path.home() / name).read_bytes() for name in client.credentials if name in noted}
        return_logins(home, client, {name: data for name, data in users.items() if _digest(data) == noted[name]})


def _note(home: Path) -> Path:
    """Return the file of the note on a HOME. A folder that was moved here, or copied, is another HOME."""
    try:
        facts = os.lstat(home)
        identity = f"{os.path.realpath(home)}|{facts.st_dev}|{facts.st_ino}"
    except OSError:
        identity = ""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "evopolicygym" / NOTES / f"{_digest(os.fsencode(identity))}.json"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
