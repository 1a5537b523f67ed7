"""Generated control tasks; `world.py` draws one."""
