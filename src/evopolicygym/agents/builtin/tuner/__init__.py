"""An agent without a model: it tries families of controllers on the task, and tunes the best one with CMA-ES.

``python -m builtin.tuner`` in a workspace, with the folder above ``builtin`` on the path. Needs numpy and cma.
"""
