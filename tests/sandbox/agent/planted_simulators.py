"""`python planted_simulators.py COMMAND...` (as root): run a command on a machine with simulators in the usual places.

The simulators exist only in a mount namespace of the command. A simulator here is a module with the name CANARY:
``gymnasium``, or ``pendulums``, a name that no list of simulators contains.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from glob import glob
from pathlib import Path

from evopolicygym.sandbox import kernel

CANARY = 'CANARY = "a simulator"\n'
# Folder or archive to import from, and what is imported.
PACKAGES = {
    "/usr/share/miniconda/lib/python3.12/site-packages": "gymnasium",
    "/usr/share/miniconda/pkgs/pendulums-1.0-py312_0/lib": "pendulums",
    "/usr/local/anaconda3/lib/python3.11/site-packages": "pendulums",
    "/usr/local/venv/lib64/python3.11/site-packages": "pendulums",
    "/usr/lib/python3/dist-packages": "gymnasium",
    "/usr/local/lib/python3.11/dist-packages": "pendulums",
    "/usr/lib/x/y/z/w/site-packages": "pendulums",
    "/usr/local/lib/python3.10/local-packages": "pendulums",
    "/usr/local/share/foo": "gymnasium",
    "/usr/share/games/bar": "Box2D",
    "/usr/share/by-a-pth-file": "pendulums",
    "/usr/share/by-an-egg-link": "pendulums",
    "/usr/share/by-a-link": "pendulums",
    "/usr/local/mine": "pendulums",  # PYTHONPATH of the judge
    "/opt/conda/lib/python3.12/site-packages": "gymnasium",
    "/home/somebody/.local/lib/python3.11/site-packages": "gymnasium",
}
ARCHIVES = {
    "/usr/share/python-wheels/gymnasium-1.0.0-py3-none-any.whl": "gymnasium",
    "/usr/share/java/minigrid-3.0.0-py3.11.egg": "minigrid",
}
LIBRARY = "/usr/local/lib/libmujoco.so.3.3.0"
# Where policies find theirs as well.
AMONG_SYSTEM_LIBRARIES = [f"{folder}/libmujoco.so" for folder in glob("/usr/lib/*-linux-gnu")]
# A Python client in an environment of its own, as pipx lays it out; its packages are shown to that client alone.
CLIENT = "/usr/local/pipx/venvs/tool/bin/client"
CLIENT_CODE = "/usr/local/pipx/venvs/tool/lib/python3.11/site-packages/client.py"
CLIENT_FILES = {
    CLIENT: "#!/usr/local/pipx/venvs/tool/bin/python\n",
    "/usr/local/pipx/venvs/tool/pyvenv.cfg": "",
    CLIENT_CODE: CANARY,
}
PLACES = {**PACKAGES, **ARCHIVES}
PYTHONPATH = "/usr/local/mine"


def main(command: list[str]) -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    for folder in ("/usr", "/opt", "/home"):
        cover(folder)
    os.umask(0o022)
    plant()
    os.environ["PYTHONPATH"] = f"{os.environ.get('PYTHONPATH', '')}:{PYTHONPATH}".lstrip(":")
    os.execv(command[0], command)


def cover(folder: str) -> None:
    """What is written to ``folder`` from here on goes to memory, and is seen by this process and its children alone."""
    os.makedirs(folder, exist_ok=True)
    memory = tempfile.mkdtemp(prefix="planted-")
    kernel.mount("tmpfs", memory, "tmpfs", 0, "size=4m,mode=755")
    for name in ("upper", "work"):
        os.mkdir(f"{memory}/{name}", 0o755)
    options = f"lowerdir={folder},upperdir={memory}/upper,workdir={memory}/work"
    try:
        kernel.mount("overlay", folder, "overlay", 0, options)
    except OSError as error:
        sys.exit(f"planted: overlay: {error}")
    kernel.detach(memory)
    os.rmdir(memory)


def plant() -> None:
    for folder, module in PACKAGES.items():
        package = Path(folder, module)
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(CANARY)
    for path, module in ARCHIVES.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{module}/__init__.py", CANARY)
    for path, text in CLIENT_FILES.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    Path("/usr/share/miniconda/conda-meta").mkdir()
    packages = Path("/usr/local/lib/python3.11/dist-packages")
    (packages / "more.pth").write_text("# a comment\nimport os\n/usr/share/by-a-pth-file\n/usr/share\n/nowhere\n")
    (packages / "pendulums.egg-link").write_text("/usr/share/by-an-egg-link\n.\n")
    Path("/usr/local/lib/python3.9").mkdir(parents=True, exist_ok=True)
    Path("/usr/local/lib/python3.9/site-packages").symlink_to("/usr/share/by-a-link")
    Path("/usr/share/games/site-packages").symlink_to("..")  # leads above itself: hides nothing
    for library in (LIBRARY, *AMONG_SYSTEM_LIBRARIES):
        Path(library).write_text(CANARY)


if __name__ == "__main__":
    main(sys.argv[1:])
