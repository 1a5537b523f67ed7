"""Connect this process to a Ray cluster as a driver, with the cluster's token; or start a cluster on this machine.

A process keeps the cluster on this machine, and ends it and removes its files however the command ends: ``python -m
evopolicygym.execution.ray.connection CPUS FOLDER``. It prints the cluster's address, and ends when its input is closed.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from evopolicygym.errors import Fault, UserError
from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.tasks.sealing import KEY_VARIABLE

INSTALL: Final = "Install it. In a clone of EvoPolicyGym: pip install '.[ray]'"
TOKEN_FILE: Final = "RAY_AUTH_TOKEN_PATH"
QUIET: Final = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
ASK_WITHOUT_TOKEN: Final = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=10)
"""
REMEDY: Final = "Start every node with RAY_AUTH_MODE=token and the same token: see `evopolicygym docs cluster`."


def import_ray() -> Any:
    """Import Ray when it is needed: it is large, and an optional extra."""
    os.environ.update(QUIET)
    try:
        import ray
    except ImportError as error:
        raise UserError("Ray is not installed", INSTALL) from error
    return ray


def connect(address: str, namespace: str, token_file: str | None) -> Any:
    """Connect as a driver of the cluster. Without ``token_file`` Ray reads the token from its usual places."""
    if token_file:
        os.environ[TOKEN_FILE] = token_file
        os.environ.pop("RAY_AUTH_TOKEN", None)  # it would take precedence
    ray = import_ray()
    _forget_token()
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray._private.worker._worker_logs_enabled = False  # it would print to stdout, which is for data
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        text = str(error).strip().splitlines()[0]
        raise UserError(
            f"no Ray cluster at {address}: {text}", "Start one: `evopolicygym docs cluster` says how."
        ) from error
    return ray


def connect_once(address: str, namespace: str, token_file: str | None) -> Any:
    """Connect, unless this process is a driver already because it opened the cluster itself."""
    ray = import_ray()
    return ray if ray.is_initialized() else connect(address, namespace, token_file)


def disconnect() -> None:
    import_ray().shutdown()


def require_token(address: str) -> None:
    """Refuse a cluster that answers without a token: an agent that can reach it could run any code on it."""
    if _answers_without_token(address):
        raise UserError(f"the Ray cluster at {address} takes commands without a token", REMEDY)


def _answers_without_token(address: str) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull}
    command = [sys.executable, "-P", "-c", ASK_WITHOUT_TOKEN, address]
    return subprocess.run(command, env=environment, capture_output=True, timeout=120).returncode == 0


def _forget_token() -> None:
    """Clear the token that Ray remembers from an earlier cluster of this process; Ray has no public function for it."""
    from ray._raylet import AuthenticationTokenLoader, Config

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


STORE_BYTES: Final = 128 << 20
POLL_S: Final = 0.05
LONGEST_FOLDER: Final = 40  # Ray puts sockets below it, and the kernel limits their paths to 107 bytes
# Memory is limited per policy, as without Ray: other programs' memory use must not cost us workers.
RAY_SETTINGS: Final = {"RAY_memory_monitor_refresh_ms": "0", "RAY_DEDUP_LOGS": "0"}


class LocalRayCluster:
    """A Ray cluster on this machine. Starts the process that keeps it; leaving the context ends Ray and removes
    ``folder``."""

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
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(POLL_S)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Return the children of this process, which are listed by its threads. Ray's threads end at any time: then their
    children are those of another thread, and are found in the next look."""
    children: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            children += map(int, (thread / "children").read_text().split())
    return children


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
