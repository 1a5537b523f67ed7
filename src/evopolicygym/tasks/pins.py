"""The exact versions that scores depend on, from the package's own metadata, compared with what is installed."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^;\s]+)$")

FILE_LISTS: Final = ("top_level.txt", "RECORD", "installed-files.txt", "SOURCES.txt")
# The distributions that can change a score of a task that needs a module; numpy, scipy and gymnasium always can.
ALWAYS_NEEDED: Final = ("numpy", "scipy", "gymnasium")
DISTRIBUTIONS_OF_MODULE: Final = {
    "Box2D": ("box2d",),
    "gymnasium_robotics": ("gymnasium-robotics", "mujoco"),
    "highway_env": ("highway-env", "pandas"),
    "minigrid": ("minigrid",),
    "mujoco": ("mujoco",),
    "pygame": ("pygame-ce",),
}


@cache
def pins() -> dict[str, str]:
    """Return the exact version that this package requires of each pinned distribution."""
    matches = (PIN.match(line) for line in metadata.requires("evopolicygym") or [])
    return {match[1].lower(): match[2] for match in matches if match}


@cache
def requirements() -> dict[str, str]:
    """Return the pip requirement of each distribution that this package requires."""
    lines = [line for line in metadata.requires("evopolicygym") or [] if ";" not in line]  # without extras
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower(): line for line in lines}


def module_of(distribution: str) -> str:
    """Return the module name of a required distribution."""
    return next(
        (name for name, behind in DISTRIBUTIONS_OF_MODULE.items() if behind[0] == distribution),
        distribution.replace("-", "_"),
    )


def remedy(distribution: str) -> str:
    """Return the pip command for a distribution that is missing or does not import."""
    again = "--force-reinstall " if installed(distribution) else ""
    return f"pip install {again}{shlex.quote(requirements().get(distribution, distribution))}"


def installed(distribution: str) -> str | None:
    """Return the installed version; None if it is missing."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def distributions(requires: tuple[str, ...]) -> tuple[str, ...]:
    """Return all distributions whose version can change a score of a task that needs these modules."""
    behind = [name for module in requires for name in DISTRIBUTIONS_OF_MODULE.get(module) or _providers(module)]
    return tuple(dict.fromkeys([*ALWAYS_NEEDED, *behind]))


@cache
def _providers(module: str) -> tuple[str, ...]:
    """Return the distributions that provide a module. ``packages_distributions`` parses the file list of every
    installed package, so it is only called if a file list or top_level.txt has a line that begins with the name."""
    begins = re.compile(rf'^"?(?:\.\./)*{re.escape(module)}\b', re.MULTILINE)
    listed = (dist.read_text(name) for dist in metadata.distributions() for name in FILE_LISTS)
    if not any(begins.search(text) for text in listed if text):
        return ()
    return tuple(metadata.packages_distributions().get(module, ()))


def source_hashes(env_id: str, requires: tuple[str, ...]) -> dict[str, str]:
    """Return a hash of the Python files of each module that no installed distribution provides.

    Such modules are under development and have no version."""
    named = [*env_id.split(":")[:-1], *requires]
    tops = dict.fromkeys(
        name.partition(".")[0] for name in named if name not in DISTRIBUTIONS_OF_MODULE and name not in ALWAYS_NEEDED
    )
    own = [name for name in tops if not _providers(name)]
    return {name: digest for name in own if (digest := _digest(name))}


def _digest(module: str) -> str | None:
    """Hash a module that is found as an import would find it, with the current folder last, without importing it."""
    spec = PathFinder.find_spec(module, [*sys.path, os.getcwd()])
    if spec is None:
        return None
    folders = [Path(location) for location in spec.submodule_search_locations or ()]
    files = [(str(file.relative_to(folder)), file) for folder in folders for file in sorted(folder.rglob("*.py"))]
    files += [] if folders or not spec.has_location else [("", Path(str(spec.origin)))]
    digest = hashlib.sha256()
    for name, file in files:
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def pygame_provider() -> str:
    """Return which of pygame and pygame-ce are installed. Both use the same folder; the last one installed is used."""
    present = [f"{name} {version}" for name in ("pygame", "pygame-ce") if (version := installed(name))]
    return " over ".join(present) or "none"


def version_mismatches(names: tuple[str, ...] | None = None) -> list[str]:
    """Return a message with its remedy for each pin that the installation does not meet."""
    wanted = {name: version for name, version in pins().items() if names is None or name in names}
    messages = [
        f"{name} {installed(name) or 'is missing'}, but scores are comparable only with {version}: "
        f"pip install {name}=={version}"
        for name, version in wanted.items()
        if installed(name) != version
    ]
    if installed("pygame") and (names is None or "pygame-ce" in names):
        messages.append(
            "pygame is installed over pygame-ce and changes CarRacing's pixels: pip uninstall -y pygame pygame-ce && "
            f"pip install pygame-ce=={pins().get('pygame-ce', '')}"
        )
    return messages
