"""Generated arcade games."""

from evopolicygym.tasks.novel.arcade.world import VERSION, draw

__all__ = ["VERSION", "draw"]
