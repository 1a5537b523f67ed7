"""One run: an agent on a task under a budget.

A run is opened (open_run), played (agent_loop) or served to a person (serve), scored (serve.finish_run) and recorded
(record). Read agent_loop.py first: it is the loop of the paper.

- settings, workspace: what a run is made of
- agent_setup, install_paths, agent_process, agent_output, agent_limits: the agent's program
- locks, disk_reserve, trust: what protects a run
- run_status, verify, replay: reading and checking a run without owning it
- integrity: signs in what an agent left behind
"""
