"""Search methods and RL that train with direct access to the simulator, and the records of their learning curves."""
