"""Generated grid worlds with drawn rules; `world.py` draws one."""
