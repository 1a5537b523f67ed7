"""Generated grid worlds with drawn rules."""

from evopolicygym.tasks.novel.rules.world import VERSION, draw

__all__ = ["VERSION", "draw"]
