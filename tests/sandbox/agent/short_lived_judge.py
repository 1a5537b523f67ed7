"""`python short_lived_judge.py LEVEL MARK SOURCE RUN`: start an agent, to be killed while it runs."""

from __future__ import annotations

import sys
from pathlib import Path

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, make_python
from evopolicygym.sandbox.agent.launch import launch

level, mark, source, run = sys.argv[1:]
folder = Path(run)
sandbox = AgentSandbox(folder / "workspace", folder / "home", folder / "tmp", make_python(folder / "python"))
launch(["python", "-c", source, mark], sandbox, AgentLevel(level), 0, 1, 2).wait()
