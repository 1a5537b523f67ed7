"""Generated creatures; `world.py` draws one."""
