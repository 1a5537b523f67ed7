"""The agent's own user when the judge is root: its id, the files that belong to it, the folders it may pass through.

Without a private root (level B) the folders above the agent's own must let it through. They do so for this one user, by
an access control entry that grants search permission and nothing else, and that is removed at the end.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.sandbox.privileges import count_tasks

FIRST_AGENT_UID: Final = 270_000
FIRST_IN_CONTAINER: Final = 50_000  # a container without root often has 65,536 users
AGENT_UIDS: Final = 10_000
ACL: Final = "system.posix_acl_access"
VERSION: Final = struct.pack("<I", 2)
ENTRY: Final = struct.Struct("<HHI")
OWNER, USER, GROUP, NAMED_GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEPTH: Final = 32  # deeper folders were made by the agent, and belong to it already
NO_ID: Final = 0xFFFF_FFFF
PASS: Final = 1

Entries = dict[tuple[int, int], int]


def agent_uid(workspace: Path) -> int | None:
    """Return a user id that stays the same for a run from turn to turn and that no process has now. None if the judge
    is not root: then the agent runs as the judge's user."""
    if os.geteuid() != 0:
        return None
    first = FIRST_AGENT_UID if _is_mapped(FIRST_AGENT_UID + AGENT_UIDS) else FIRST_IN_CONTAINER
    start = int.from_bytes(hashlib.sha256(os.fsencode(workspace)).digest()[:4], "big")
    for step in range(AGENT_UIDS):
        uid = first + (start + step) % AGENT_UIDS
        if not count_tasks(uid):
            return uid
    raise UserError("every user id for agents is in use", "End the agents that run on this machine.")


def hand_over(folder: Path, uid: int, keep: str = "") -> None:
    """Give ``folder`` and everything in it to ``uid``, except the entry ``keep``. Links are not followed, and a file
    with more than one name is left alone: it may belong to another user."""
    os.chown(folder, uid, uid, follow_symlinks=False)
    descriptor = os.open(folder, FOLDER)
    try:
        _hand_over(descriptor, uid, keep, DEPTH)
    finally:
        os.close(descriptor)


def _hand_over(folder: int, uid: int, keep: str, depth: int) -> None:
    for name in os.listdir(folder):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        is_folder = stat.S_ISDIR(facts.st_mode)
        if name == keep:
            continue
        if facts.st_uid != uid and (is_folder or facts.st_nlink == 1):
            os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
        if is_folder and depth:
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                _hand_over(inner, uid, "", depth - 1)
            finally:
                os.close(inner)


@contextmanager
def passage(folders: Iterable[str], uid: int) -> Iterator[None]:
    """Let ``uid`` pass through ``folders`` and those above them, for the duration of the block."""
    closed = sorted(
        {str(path) for folder in folders for path in (Path(folder), *Path(folder).parents) if _is_closed(path)}
    )
    opened: list[str] = []
    try:
        for folder in closed:
            _grant_passage(folder, uid, closed)
            opened.append(folder)
        yield
    finally:
        for folder in opened:
            with suppress(OSError):
                _change(folder, uid, False)


def _grant_passage(folder: str, uid: int, closed: list[str]) -> None:
    try:
        _change(folder, uid, True)
    except OSError as error:
        remedy = f"chmod o+x {' '.join(closed)}, or put the runs where other users may pass"
        raise OSError(f"the agent's user cannot reach its folders: {folder}: {error.strerror}: {remedy}") from error


def _is_mapped(uid: int) -> bool:
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(int(number) for number in line.split()) for line in file]
    return any(first <= uid < first + count for first, _, count in ranges)


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o001


def _change(folder: str, uid: int, may_pass: bool) -> None:
    """Change the entry under a lock, because judges of other runs do the same."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        entries = _entries(descriptor)
        entries.pop((USER, uid), None)
        if may_pass:
            entries[USER, uid] = PASS
        _store(descriptor, entries)
    finally:
        os.close(descriptor)


def _entries(descriptor: int) -> Entries:
    try:
        data = os.getxattr(descriptor, ACL)[len(VERSION) :]
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = os.fstat(descriptor).st_mode
        return {(OWNER, NO_ID): mode >> 6 & 7, (GROUP, NO_ID): mode >> 3 & 7, (OTHER, NO_ID): mode & 7}
    return {(tag, owner): rights for tag, rights, owner in ENTRY.iter_unpack(data)}


def _store(descriptor: int, entries: Entries) -> None:
    named = [rights for (tag, _), rights in entries.items() if tag in (USER, NAMED_GROUP)]
    if not named:
        mode = entries[OWNER, NO_ID] << 6 | entries[GROUP, NO_ID] << 3 | entries[OTHER, NO_ID]
        with suppress(OSError):
            os.removexattr(descriptor, ACL)
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o777 | mode)
        return
    entries[MASK, NO_ID] = entries.get((MASK, NO_ID), entries[GROUP, NO_ID]) | PASS
    ordered = sorted(entries.items())
    os.setxattr(descriptor, ACL, VERSION + b"".join(ENTRY.pack(tag, rights, owner) for (tag, owner), rights in ordered))
