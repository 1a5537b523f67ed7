"""Kernel layers that confine untrusted code, shared by the jail of policies (``policy``) and the sandbox of agents
(``agent``); and checkpoints, the immutable copies of submitted policies."""
