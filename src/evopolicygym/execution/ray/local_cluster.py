"""A Ray of our own, on this machine: a process that starts it and, however we end, ends it and removes its files.

Started as ``python -m evopolicygym.execution.ray.local_cluster CPUS FOLDER``. It prints the address, and lives until its
standard input ends.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, Self

from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.ray.connection import QUIET, TOKEN_FILE, import_ray
from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.tasks.sealing import KEY_VARIABLE

STORE_BYTES: Final = 128 << 20
LONGEST_FOLDER: Final = 40  # Ray's sockets lie below it, and the kernel takes 107 bytes for all of the name
# Memory is limited per policy, as without Ray: a machine that is full of other things must not cost us seats.
OWN: Final = {"RAY_memory_monitor_refresh_ms": "0", "RAY_DEDUP_LOGS": "0"}


class LocalRayCluster:
    """Our end of it."""

    def __init__(self, cpus: int) -> None:
        import_ray()
        self.folder = Path(tempfile.mkdtemp(prefix="epg-ray-"))
        if len(str(self.folder)) > LONGEST_FOLDER:
            os.rmdir(self.folder)
            raise UserError(f"{self.folder} is too long a name for Ray's sockets", "Set TMPDIR to a shorter one.")
        self.token_file = self.folder / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(secrets.token_hex(32))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(cpus), str(self.folder)],
            env=_environment(self.token_file),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; it ends when we do
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def address(self) -> str:
        assert self._process.stdout
        address = self._process.stdout.readline().strip()
        if not address:
            raise Fault("Ray did not start on this machine; `ray start --head` by hand says why")
        return address


def _environment(token_file: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (KEY_VARIABLE, "RAY_ADDRESS")}
    return kept | QUIET | OWN | {TOKEN_FILE: str(token_file), "TMPDIR": str(token_file.parent)}


def main(cpus: int, folder: str) -> NoReturn:
    """Not by Ray's own way out: it waits for processes that may no longer be there."""
    try:
        _serve(cpus, folder)
    finally:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # who loses its parent now is ours to end
        _end_all()
        remove_tree(folder)
        os._exit(0)


def _serve(cpus: int, folder: str) -> None:
    ray = import_ray()
    ray.init(
        num_cpus=cpus,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        log_to_driver=False,
        configure_logging=False,
        _temp_dir=folder,
    )
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()


def _end_all() -> None:
    """Before the folder goes: who comes late would make it anew."""
    while True:
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
