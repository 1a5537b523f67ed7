"""EvoPolicyGym measures how coding agents improve executable policies."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
