"""An agent that writes everything it can read into its workspace: files, variables, processes, mounts, and all answers
of the API, also to a policy that fails."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

OUT = Path("everything.txt")
API = os.environ["EVOPOLICYGYM_API"]
SPOOL: list[str] = []


def tell(where: str, what: str) -> None:
    SPOOL.append(f"=== {where}\n{what}\n")


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, "submit.py", *words], capture_output=True, text=True)
    tell(" ".join(words), done.stdout + done.stderr)


def files(*roots: str) -> None:
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    data = Path(path).read_bytes()[: 1 << 20] if os.path.isfile(path) else b""
                except OSError:
                    data = b""
                tell(path, data.decode(errors="replace") if b"\0" not in data[:64] else ascii(data[:4096]))


def processes() -> None:
    try:
        entries = ["self", *os.listdir("/proc")]
    except PermissionError:  # at level B
        entries = ["self", *map(str, range(os.getpid() + 10))]
    for entry in entries:
        for name in ("cmdline", "environ", "mountinfo", "comm", "cgroup", "maps"):
            try:
                tell(f"/proc/{entry}/{name}", Path("/proc", entry, name).read_text(errors="replace"))
            except OSError:
                pass


def get(path: str) -> None:
    with urllib.request.urlopen(API + path) as reply:
        text = reply.read().decode()
    tell(path, text)


ACT = Path("system/policy.py").read_text()
tell("argv", json.dumps(sys.argv))
tell("environ", json.dumps(dict(os.environ)))
tell("cwd", os.getcwd())
for path in ("/info", "/task", "/openapi.json"):
    get(path)
run("--info")
run("--check")
run("0")
Path("system/policy.py").write_text(ACT.replace("self.steps += 1", "raise KeyError(sorted(vars(self)), obs)"))
run("1")
Path("system/policy.py").write_text(ACT.replace("import numpy", "import no_such_module, numpy"))
run("2")
Path("system/policy.py").write_text(
    ACT.replace("self.steps = 0", "print(obs_space, action_space, env_meta, globals())", 1)
)
run("3")
processes()
files(os.getcwd(), os.environ["HOME"], os.environ["TMPDIR"], "/tmp")
OUT.write_text("".join(SPOOL))
