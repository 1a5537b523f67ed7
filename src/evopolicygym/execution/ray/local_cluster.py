"""A Ray cluster on this machine, kept by a process that ends it and removes its files however the command ends.

The process is ``python -m evopolicygym.execution.ray.local_cluster CPUS FOLDER``. It prints the cluster's address and
ends when its standard input is closed.
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
LONGEST_FOLDER: Final = 40  # Ray puts sockets below it, and the kernel limits their paths to 107 bytes
# Memory is limited per policy, as without Ray: other programs' memory use must not cost us workers.
RAY_SETTINGS: Final = {"RAY_memory_monitor_refresh_ms": "0", "RAY_DEDUP_LOGS": "0"}


class LocalRayCluster:
    """Start the keeping process; leaving the context ends Ray and removes ``folder``."""

    def __init__(self, cpus: int) -> None:
        import_ray()
        self.folder = Path(tempfile.mkdtemp(prefix="epg-ray-"))
        if len(str(self.folder)) > LONGEST_FOLDER:
            os.rmdir(self.folder)
            raise UserError(f"the path {self.folder} is too long for Ray's sockets", "Set TMPDIR to a shorter folder.")
        self.token_file = self.folder / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(secrets.token_hex(32))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(cpus), str(self.folder)],
            env=_environment(self.token_file),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the command alone; this process ends when the command does
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def address(self) -> str:
        """Return the address of the cluster; waits until it has started."""
        assert self._process.stdout
        address = self._process.stdout.readline().strip()
        if not address:
            raise Fault("Ray did not start on this machine; run `ray start --head` by hand to see why")
        return address


def _environment(token_file: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (KEY_VARIABLE, "RAY_ADDRESS")}
    return kept | QUIET | RAY_SETTINGS | {TOKEN_FILE: str(token_file), "TMPDIR": str(token_file.parent)}


def main(cpus: int, folder: str) -> NoReturn:
    """Run Ray until standard input is closed, then kill its processes and remove its files.

    ``ray.shutdown`` is not used: it waits for processes that may no longer be there."""
    try:
        _serve(cpus, folder)
    finally:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # orphans of Ray become our children
        _kill_children()
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


def _kill_children() -> None:
    """Kill every descendant. Called before the folder is removed, which a late process would make anew."""
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
