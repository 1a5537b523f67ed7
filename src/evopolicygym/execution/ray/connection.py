"""Connecting this process to a Ray cluster as a driver, with the cluster's token."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any, Final

from evopolicygym.errors import UserError

INSTALL: Final = "Install it: pip install 'evopolicygym[ray]'"
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
