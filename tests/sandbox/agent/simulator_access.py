"""`python simulator_access.py LEVEL...`: list the simulators that an agent can import or read at each level.

Looks for those of ``planted_simulators`` and searches the disk for others. Prints one JSON line with what the judge
knows of them, and one line for each level.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import planted_simulators
from agent_testbed import AgentTestbed

from evopolicygym.runs.agent.install_paths import find_install_paths
from evopolicygym.sandbox import probes
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel
from evopolicygym.sandbox.agent.visible_files import exposure
from evopolicygym.sandbox.runtime import runtime

PROBE = """
import importlib, json, os, sys
places, library = json.loads(sys.argv[1])
found = list(places.items())
for top in ("/usr", "/opt", "/home", "/srv", "/var", os.environ["HOME"]):
    for folder, folders, files in os.walk(top):
        found += [(folder, name) for name in folders if name in ("gymnasium", "Box2D", "mujoco", "pendulums")]
got = set()
for place, module in found:
    sys.modules.pop(module, None)
    sys.path_importer_cache.clear()
    sys.path[:0] = [place]
    try:
        if "CANARY" in dir(importlib.import_module(module)):
            got.add(place)
    except (ImportError, OSError):
        pass
    del sys.path[0]
try:
    if "CANARY" in open(library).read():
        got.add(library)
except OSError:
    pass
import numpy
works = os.access("/usr/bin/env", os.X_OK) and bool(os.listdir("/usr/share"))
print(json.dumps({"found": sorted(got), "works": works}))
"""


def main(levels: list[str]) -> None:
    exposed = exposure()
    policies = [probe.detail for probe in probes.probe_isolation() if probe.name.startswith("level") and not probe.ok]
    facts = {"seen": exposed.seen, "hidden": exposed.hidden_simulators, "policies": policies, "holes": runtime().holes}
    print(json.dumps({"level": "all", **facts}), flush=True)
    request = json.dumps([planted_simulators.PLACES, planted_simulators.LIBRARY])
    with AgentTestbed() as testbed:
        for level in levels:
            seen: dict[str, bool] = {}
            code, text = testbed.run(["python", "-c", PROBE, request], AgentLevel(level))
            assert code == 0, text
            for name, shown in (
                ("client", find_install_paths(Path(planted_simulators.CLIENT)).readable),
                ("others", ()),
            ):
                seen[name] = (
                    testbed.run(["cat", planted_simulators.CLIENT_CODE], AgentLevel(level), readable=shown)[0] == 0
                )
            print(json.dumps({"level": level, **seen, **json.loads(text)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
