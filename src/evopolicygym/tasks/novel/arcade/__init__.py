"""Generated arcade games; `world.py` draws one."""
