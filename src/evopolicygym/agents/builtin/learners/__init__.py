"""Agents without a model that learn a network's weights from their submissions: search methods and RL.

``python -m builtin.learners METHOD`` in a workspace, with the folder above ``builtin`` on the path. They know the
spaces of the task and nothing else about it. The search methods also train with direct access to the simulator:
`evopolicygym baseline curve`.
"""
