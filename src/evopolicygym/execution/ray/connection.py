"""How this process speaks to Ray: as a driver, with the cluster's token, and never to anybody else."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

from evopolicygym.errors import UserError

INSTALL: Final = "Install it: pip install 'evopolicygym[ray]'"
TOKEN_FILE: Final = "RAY_AUTH_TOKEN_PATH"
QUIET: Final = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}


def library() -> Any:
    """Imported when it is needed: it is large, and an extra."""
    os.environ.update(QUIET)
    try:
        import ray
    except ImportError as error:
        raise UserError("Ray is not installed", INSTALL) from error
    return ray


def connect(address: str, namespace: str, token_file: str | None) -> Any:
    """A driver of the cluster. Without ``token_file`` Ray looks for the token where it always does."""
    if token_file:
        os.environ[TOKEN_FILE] = token_file
        os.environ.pop("RAY_AUTH_TOKEN", None)  # it would be asked first
    ray = library()
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


def connected(address: str, namespace: str, token_file: str | None) -> Any:
    """Of a process that has made the fleet itself: as it is."""
    ray = library()
    return ray if ray.is_initialized() else connect(address, namespace, token_file)


def disconnect() -> None:
    library().shutdown()


def _forget_token() -> None:
    """A process that knew another cluster before remembers its token; Ray has no public way to say so."""
    from ray._raylet import AuthenticationTokenLoader, Config

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
