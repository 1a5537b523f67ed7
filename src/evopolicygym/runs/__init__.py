"""One run: an agent on a task under a budget.

A run is opened (open_run), played (agent/loop) or served to a person (serve), scored (serve.finish_run) and recorded
(record). Read agent/loop.py first: it is the loop of the paper.

- settings, options, workspace, instructions: what a run is made of, and what its agent reads
- agent/: the agent's program: set-up, process, output, limits, gateway
- locks, disk_reserve, trust: what protects a run
- progress, run_status, tail, verify, replay: reading and checking a run without owning it
- integrity: signs in what an agent left behind
- import_runs, reference_folders: runs of the reference code
"""
