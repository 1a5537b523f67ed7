"""Generated creatures."""

from evopolicygym.tasks.novel.creature.world import VERSION, draw

__all__ = ["VERSION", "draw"]
