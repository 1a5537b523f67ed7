"""A run with its judge, a second run and a user's home beside it: all that an agent must not reach.

`python agent_testbed.py LEVEL[@ABI]...` runs all attacks at each level and prints one JSON line for each. The tests
start it this way to run the attacks as another user.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gymnasium

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, make_python
from evopolicygym.sandbox.agent.launch import SandboxedProcess, launch
from evopolicygym.sandbox.runtime import runtime

HERE = Path(__file__).parent
PATIENCE_S = 120.0
VICTIM = """
import ctypes, signal, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
ctypes.CDLL(None).prctl(1, 9)
print("ready", flush=True)
sys.stdin.read()
"""


class AgentTestbed:
    """``run`` starts a program in the sandbox of the run; ``facts`` is all that an attack is told."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.root = Path(tempfile.mkdtemp(prefix="testbed-")).resolve()
        self.stack.callback(shutil.rmtree, self.root, True)
        self.canary = f"canary-{secrets.token_hex(16)}"
        self.folder, self.other, self.user = (self.root / name for name in ("runs/one", "runs/two", "user"))
        self.workspace = self.folder / "workspace"
        self._plant()
        self._listen()
        self.victim = self.stack.enter_context(self._judge())
        self.python = make_python(self.folder / "python")

    def __enter__(self) -> AgentTestbed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stack.close()

    def sandbox(self, **changes: Any) -> AgentSandbox:
        given = {
            "workspace": self.workspace,
            "home": self.folder / "home",
            "temporary": self.folder / "tmp",
            "python": self.python,
            "feedback": self.folder / "feedback",
            "ports": (self.api_port,),
        }
        return AgentSandbox(**given | changes)

    def start(self, argv: Sequence[str], level: AgentLevel, abi: int | None = None, output: int | None = None,
              **changes: Any) -> SandboxedProcess:  # fmt: skip
        """Start a program without input; output goes to a file of the testbed by default."""
        with open(os.devnull) as nothing, open(self.root / "output", "wb") as file:
            out = file.fileno() if output is None else output
            return launch(argv, self.sandbox(**changes), level, nothing.fileno(), out, out, abi)

    def run(self, argv: Sequence[str], level: AgentLevel, abi: int | None = None, **changes: Any) -> tuple[int, str]:
        with self.start(argv, level, abi, **changes) as process:
            code = process.wait(PATIENCE_S)
        assert code is not None, self.output()
        return code, self.output()

    def output(self) -> str:
        return (self.root / "output").read_text(errors="replace")

    def shell(self, script: str, level: AgentLevel, **changes: Any) -> tuple[int, str]:
        return self.run(["/bin/bash", "-c", script], level, **changes)

    def attack(self, level: AgentLevel, abi: int | None = None, **changes: Any) -> dict[str, bool]:
        """Run all attacks in one sandbox with its own Python, then check what they have left on the host."""
        shutil.copy(HERE / "hostile_agent.py", self.workspace / "hostile_agent.py")
        (self.workspace / "facts.json").write_text(json.dumps(self.facts()))
        self._restore()
        code, text = self.run(["python", "hostile_agent.py"], level, abi, **changes)
        assert code == 0, text
        outcomes: dict[str, bool] = json.loads(text.splitlines()[-1])
        (self.workspace / "hard").unlink(missing_ok=True)
        return outcomes | self._marks()

    def _marks(self) -> dict[str, bool]:
        """Return what the host sees of attacks that cannot tell themselves whether they succeeded."""
        ledger, victim = self.folder / "ledger.jsonl", self.folder / "victim.txt"
        notes = [Path(self.facts()[name]) for name in ("shm_note", "tmp_note")]
        marks = {
            "append_to_the_ledger": ledger.read_text() != f"{self.canary}\n",
            "make_a_file_outside": (self.folder / "note").exists(),
            "leave_a_note_in_shared_memory": notes[0].exists(),
            "leave_a_note_in_the_temporary_folder": notes[1].exists(),
            "damage": not victim.exists() or victim.read_text() != "unharmed",
        }
        for note in notes:
            note.unlink(missing_ok=True)
        return marks

    def facts(self) -> dict[str, Any]:
        own = runtime()
        return {
            "canary": self.canary,
            **self._files(),
            "package_root": own.package_root,
            "site": str(Path(gymnasium.__file__).parents[1]),
            "python": own.python,
            "judge": self.victim,
            "other_api_port": self.other_api_port,
            "everywhere": self.everywhere,
            "udp": self.udp,
            "unix": str(self.root / "service.sock"),
            "abstract": self.abstract,
            "shm_key": self.shm_key,
            "shm_note": f"/dev/shm/{self.canary}",
            "tmp_note": f"/tmp/{self.canary}",
        }

    def _files(self) -> dict[str, str]:
        return {
            "run": str(self.folder),
            "ledger": str(self.folder / "ledger.jsonl"),
            "hidden": str(self.folder / "hidden" / "result.json"),
            "victim": str(self.folder / "victim.txt"),
            "other_workspace": str(self.other / "workspace" / "policy.py"),
            "other_api_file": str(self.other / "workspace" / "door.json"),
            "seal_key": str(self.user / ".config" / "evopolicygym" / "seal.key"),
            "ssh_key": str(self.user / ".ssh" / "id_ed25519"),
        }

    def _plant(self) -> None:
        names = ("ledger", "hidden", "other_workspace", "other_api_file", "seal_key", "ssh_key")
        secret = [Path(self._files()[name]) for name in names]
        for path in secret:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.canary}\n")
        for folder in (self.workspace / "system", self.folder / "home", self.folder / "tmp", self.folder / "feedback"):
            folder.mkdir(parents=True)
        (self.folder / "feedback" / "summary.json").write_text("{}")
        for run in (self.folder, self.other):
            run.chmod(0o700)
        self._restore()

    def _restore(self) -> None:
        (self.folder / "ledger.jsonl").write_text(f"{self.canary}\n")
        (self.folder / "victim.txt").write_text("unharmed")
        (self.folder / "victim.txt").chmod(0o644)
        (self.folder / "note").unlink(missing_ok=True)

    def _listen(self) -> None:
        """Listen as the run's own API, which answers, as another run's, and at every other kind of address."""
        self.abstract = f"testbed-{secrets.token_hex(8)}"
        self.api_port = self._serve(("127.0.0.1", 0), b"the API")
        self.other_api_port = self._serve(("127.0.0.1", 0))
        self.everywhere = self._serve(("0.0.0.0", 0))
        self._serve(str(self.root / "service.sock"), family=socket.AF_UNIX)
        self._serve(f"\0{self.abstract}", family=socket.AF_UNIX)
        self.udp = self._answer_datagrams()
        libc = ctypes.CDLL(None)
        self.shm_key = secrets.randbits(30)
        segment = libc.shmget(self.shm_key, 4096, 0o1666)
        self.stack.callback(libc.shmctl, segment, 0, None)

    def _serve(self, address: Any, word: bytes = b"", family: int = socket.AF_INET) -> Any:
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen()
        threading.Thread(target=_greet, args=(listener, word or self.canary.encode()), daemon=True).start()
        self.stack.callback(listener.close)
        self.stack.callback(_shut, listener)
        return listener.getsockname()[1] if family == socket.AF_INET else address

    def _answer_datagrams(self) -> int:
        listener = socket.socket(type=socket.SOCK_DGRAM)
        listener.bind(("127.0.0.1", 0))
        threading.Thread(target=_answer, args=(listener, self.canary.encode()), daemon=True).start()
        self.stack.callback(listener.close)
        self.stack.callback(_shut, listener)
        return int(listener.getsockname()[1])

    @contextmanager
    def _judge(self) -> Iterator[int]:
        """Start a process with a secret in its environment, as the judge has."""
        command = [sys.executable, "-I", "-c", VICTIM, "evopolicygym-victim"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"SECRET": self.canary}
        ) as process:
            assert process.stdout
            process.stdout.readline()
            yield process.pid
            process.kill()


def _greet(listener: socket.socket, word: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(word)


def _answer(listener: socket.socket, word: bytes) -> None:
    while True:
        try:
            _, sender = listener.recvfrom(100)
        except OSError:
            return
        if sender is None:
            return
        listener.sendto(word, sender)


def _shut(listener: socket.socket) -> None:
    try:
        listener.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def main(levels: list[str]) -> None:
    for name in levels:
        level, _, abi = name.partition("@")
        with AgentTestbed() as testbed:
            print(json.dumps({"level": name, "outcomes": testbed.attack(AgentLevel(level), int(abi) if abi else None)}))


if __name__ == "__main__":
    main(sys.argv[1:])
