"""Find package folders of Pythons beneath a folder, and simulators by their names.

Only folders and `*.pth` files are read; nothing that is found is imported or run.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages", "vendor-packages")
LIBRARY_OF_A_PYTHON: Final = re.compile(r"(python|pypy)[\d.]*t?")
SIMULATORS: Final = (
    "ale_py atari_py box2d box2d_py brax craftax dm_control evopolicygym gym gym3 gym_minigrid gymnasium "
    "gymnasium_robotics gymnax highway_env isaacgym isaaclab isaacsim jumanji meltingpot metaworld minigrid minihack "
    "mujoco mujoco_mjx mujoco_playground mujoco_py nle panda_gym pettingzoo procgen pybullet pybullet_envs robosuite "
    "safety_gymnasium stable_retro"
).split()
NAMES: Final = "|".join(name.replace("_", "[-_]") for name in SIMULATORS)
SIMULATOR: Final = re.compile(f"(?:{NAMES}|libmujoco|libbox2d)", re.IGNORECASE)
SIMULATOR_FOLDER: Final = re.compile(f"(?:{NAMES})", re.IGNORECASE)
# A module, an archive that Python imports from or an installer unpacks, or a physics engine without Python bindings.
SIMULATOR_FILE: Final = re.compile(
    rf"(?:{NAMES})(?:[-.].*)?\.(?:pyc?|so|whl|egg|zip|pyz|conda|tar|tgz|tar\.(?:gz|bz2|xz))|lib(?:mujoco|box2d)[\w.-]*",
    re.IGNORECASE,
)
MAX_FOLDERS: Final = 1_000_000  # some ten seconds
MAX_PATH_FILE: Final = 1 << 16  # bytes of a `*.pth` file


@dataclass(frozen=True)
class PackageScan:
    """Result of a scan, as real paths. ``packages``: folders that a Python imports from; ``simulators``: folders and
    files, by name, that are not beneath ``packages``. Not ``complete`` if there were too many folders to look at."""

    packages: tuple[str, ...]
    simulators: tuple[str, ...]
    complete: bool


@cache
def scan_packages(root: str) -> PackageScan:
    """Look at every folder beneath ``root``, a real path. Cached: agents cannot change what they read."""
    packages, simulators = dict[str, None](), dict[str, None]()
    waiting, looked_at = deque([root]), 0
    while waiting and looked_at < MAX_FOLDERS:
        folder = waiting.popleft()
        looked_at += 1
        entries = _entries(folder)
        is_conda = any(entry.name == "conda-meta" for entry in entries)
        for entry in entries:
            if _holds_packages(entry.name, folder, is_conda):
                packages |= dict.fromkeys(_target(entry))
            elif _is_simulator(entry.name, entry.path):
                simulators |= dict.fromkeys(_target(entry))
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    all_packages = [*packages, *(path for folder in packages for path in _added_paths(folder))]
    return PackageScan(tuple(dict.fromkeys(all_packages)), tuple(simulators), not waiting)


@cache
def simulators_beneath(root: str) -> tuple[str, ...]:
    """Return all simulators beneath ``root``, also those in package folders; ``root`` itself if it is one."""
    if _is_simulator(os.path.basename(root), root):
        return (root,)
    scan = scan_packages(root)
    inner = (path for folder in scan.packages if is_beneath(folder, root) for path in simulators_beneath(folder))
    return tuple(dict.fromkeys([*scan.simulators, *inner]))


def simulators_in(folder: str) -> tuple[str, ...]:
    """Return simulators directly in ``folder``, as in a package folder; ``folder`` itself if it is one."""
    if _is_simulator(os.path.basename(folder), folder):
        return (folder,)
    return tuple(sorted(entry.path for entry in _entries(folder) if _is_simulator(entry.name, entry.path)))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _holds_packages(name: str, folder: str, is_conda: bool) -> bool:
    if not name.endswith("-packages"):
        return is_conda and name == "pkgs"
    return name in PACKAGE_FOLDERS or bool(LIBRARY_OF_A_PYTHON.fullmatch(os.path.basename(folder)))


def _is_simulator(name: str, path: str) -> bool:
    """Check the name; a folder must also have an ``__init__``, without which it may be anything."""
    if not SIMULATOR.match(name):  # cheap, and true of nearly all names
        return False
    if SIMULATOR_FILE.fullmatch(name):
        return True
    if not SIMULATOR_FOLDER.fullmatch(name) or not os.path.isdir(path):
        return False
    with suppress(OSError):
        return any(inner.startswith("__init__.") for inner in os.listdir(path))
    return False


def _target(entry: os.DirEntry[str]) -> Iterator[str]:
    """Yield the real path; nothing for a broken link, or for one to a folder above it, which would hide everything."""
    if not entry.is_symlink():
        yield entry.path
        return
    target = os.path.realpath(entry.path)
    if os.path.exists(target) and not is_beneath(entry.path, target):
        yield target


def _added_paths(packages: str) -> Iterator[str]:
    """Yield what `*.pth` and `*.egg-link` files of a package folder add to the path, except whole standard
    libraries."""
    for entry in _entries(packages):
        if not entry.name.endswith((".pth", ".egg-link")) or not entry.is_file():
            continue
        for line in _lines(entry.path):
            path = os.path.realpath(os.path.join(packages, line))
            if os.path.exists(path) and not is_beneath(packages, path) and not os.path.exists(f"{path}/os.py"):
                yield path


def _lines(path: str) -> list[str]:
    with suppress(OSError, ValueError), open(path, "rb") as file:
        lines = [line.strip() for line in file.read(MAX_PATH_FILE).decode("utf-8").splitlines()]
        return [line for line in lines if line and "\0" not in line and not line.startswith(("#", "import"))]
    return []


def is_beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
