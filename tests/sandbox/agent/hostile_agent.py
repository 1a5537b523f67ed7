"""Attacks of a hostile agent, with the standard library alone. An attack fails if it raises OSError or returns False.

Runs in the sandbox as ``python hostile_agent.py``: reads facts.json beside it, and prints one JSON object of name to
outcome.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys

FACTS = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json")))
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
NUMBERS = {
    "ptrace": (101, 117), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "unshare": (272, 97),
    "add_key": (248, 217), "shmget": (29, 194), "io_uring_setup": (425, 425), "truncate": (76, 45),
}  # fmt: skip
CANARY, LEDGER, RUN, VICTIM = FACTS["canary"], FACTS["ledger"], FACTS["run"], FACTS["victim"]
JUDGE = f"/proc/{FACTS['judge']}"
OTHER_SERVER = ("127.0.0.1", FACTS["other_api_port"])
IPPROTO_MPTCP = 262
NEW_USER_NAMESPACE = 0x10000000
PTRACE_ATTACH, ALL_CHILDREN = 16, 0x40000000
SEND_FAST_OPEN = 0x20000000
USER_KEYRING = -4


def syscall(name, *arguments):
    result = LIBC.syscall(ctypes.c_long(NUMBERS[name][0 if X86 else 1]), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def contains(path, text=CANARY):
    with open(path) as file:
        return text in file.read(1 << 20)


def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)


def connects(address, family=socket.AF_INET, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as connection:
        connection.settimeout(3)
        connection.connect(address)
        return connection.recv(100).decode() == CANARY


def replies(address, kind, flags=0):
    """Whether something answers what is sent without a connection."""
    with socket.socket(type=kind) as connection:
        connection.sendto(b"ask", flags, address)  # blocking: a fast open would be reported as in progress
        connection.settimeout(3)
        return connection.recv(100).decode() == CANARY


def imports(package, folder):
    sys.path.append(folder)
    try:
        __import__(package)
    except ImportError:
        return False
    finally:
        sys.path.pop()


def import_with_the_systems_python():
    """Use the first Python of the system, told where the simulators are."""
    code = "import sys; sys.path.append(sys.argv[1]); import gymnasium"
    command = [FACTS["python"], "-I", "-c", code, FACTS["site"]]
    return subprocess.run(command, capture_output=True).returncode == 0


def follow_a_link_out():
    os.symlink(LEDGER, "link")
    try:
        return contains("link")
    finally:
        os.unlink("link")


def hard_link_out():
    os.link(LEDGER, "hard")
    return contains("hard")


def trace_the_judge():
    syscall("ptrace", ctypes.c_long(PTRACE_ATTACH), ctypes.c_long(FACTS["judge"]), None, None)
    os.waitpid(FACTS["judge"], ALL_CHILDREN)


def take_the_judges_descriptor():
    pidfd = syscall("pidfd_open", ctypes.c_int(FACTS["judge"]), ctypes.c_uint(0))
    syscall("pidfd_getfd", ctypes.c_int(pidfd), ctypes.c_int(0), ctypes.c_uint(0))


def use_a_keyring():
    payload = b"note"
    keyring = ctypes.c_int(USER_KEYRING)
    syscall("add_key", b"user", b"evopolicygym-note", payload, ctypes.c_size_t(len(payload)), keyring)


def make_a_user_namespace():
    child = os.fork()
    if child == 0:
        try:
            syscall("unshare", ctypes.c_int(NEW_USER_NAMESPACE))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def replace_submit():
    """A judge that ran submit.py would run it with the judge's rights; it never does."""
    write("submit.py", f"import sys; sys.exit(0 if {CANARY!r} in open({LEDGER!r}).read() else 1)\n")
    return subprocess.run([sys.executable, "submit.py"], capture_output=True).returncode == 0


FILES = {
    "read_the_ledger": lambda: contains(LEDGER),
    "read_hidden_results": lambda: contains(FACTS["hidden"]),
    "read_another_runs_workspace": lambda: contains(FACTS["other_workspace"]),
    "read_another_runs_api_address": lambda: contains(FACTS["other_api_file"]),
    "read_the_sealing_key": lambda: contains(FACTS["seal_key"]),
    "read_a_private_key_of_the_user": lambda: contains(FACTS["ssh_key"]),
    "read_this_package": lambda: contains(f"{FACTS['package_root']}/evopolicygym/errors.py", "IsolationUnavailable"),
    "import_a_simulator": lambda: imports("gymnasium", FACTS["site"]),
    "import_this_package": lambda: imports("evopolicygym", FACTS["package_root"]),
    "import_with_the_systems_python": import_with_the_systems_python,
    "list_the_run": lambda: "ledger.jsonl" in os.listdir(RUN),
    "follow_a_link_out": follow_a_link_out,
    "hard_link_out": hard_link_out,
    "stat_a_file": lambda: os.stat(LEDGER).st_size > 0,
    "change_a_mode": lambda: os.chmod(VICTIM, 0o777),
    "append_to_the_ledger": lambda: write(LEDGER, "forged\n", "a"),
    "truncate_a_file": lambda: syscall("truncate", VICTIM.encode(), ctypes.c_long(0)),
    "open_to_truncate": lambda: os.close(os.open(VICTIM, os.O_RDONLY | os.O_TRUNC)),
    "delete_a_file": lambda: os.unlink(VICTIM),
    "make_a_file_outside": lambda: write(f"{RUN}/note", ""),
    # The host decides whether these two succeeded: whether it sees the note.
    "leave_a_note_in_shared_memory": lambda: write(FACTS["shm_note"], "note"),
    "leave_a_note_in_the_temporary_folder": lambda: write(FACTS["tmp_note"], "note"),
}
PROCESSES = {
    "read_the_judges_environment": lambda: contains(f"{JUDGE}/environ"),
    "read_the_judges_command_line": lambda: contains(f"{JUDGE}/cmdline", "evopolicygym-victim"),
    "read_the_judges_memory": lambda: open(f"{JUDGE}/mem", "rb").close(),
    "read_the_judges_memory_map": lambda: contains(f"{JUDGE}/maps", "[stack]"),
    "reach_the_judges_root": lambda: contains(f"{JUDGE}/root{LEDGER}"),
    "list_the_judges_descriptors": lambda: len(os.listdir(f"{JUDGE}/fd")) > 0,
    "trace_the_judge": trace_the_judge,
    "take_the_judges_descriptor": take_the_judges_descriptor,
    "signal_the_judge": lambda: os.kill(FACTS["judge"], signal.SIGUSR1),  # which it ignores
}
CONNECTIONS = {
    "connect_to_another_server": lambda: connects(OTHER_SERVER),
    "connect_to_another_address": lambda: connects(("127.0.0.2", FACTS["everywhere"])),
    "connect_by_multipath": lambda: connects(OTHER_SERVER, protocol=IPPROTO_MPTCP),
    "connect_in_a_send": lambda: replies(OTHER_SERVER, socket.SOCK_STREAM, SEND_FAST_OPEN),
    "send_a_datagram": lambda: replies(("127.0.0.1", FACTS["udp"]), socket.SOCK_DGRAM),
    "connect_to_a_socket_file": lambda: connects(FACTS["unix"], socket.AF_UNIX),
    "connect_to_an_abstract_socket": lambda: connects("\0" + FACTS["abstract"], socket.AF_UNIX),
    "attach_shared_memory": lambda: syscall(
        "shmget", ctypes.c_int(FACTS["shm_key"]), ctypes.c_size_t(0), ctypes.c_int(0)
    ),
    "use_a_keyring": use_a_keyring,
}
PRIVILEGES = {
    "make_a_user_namespace": make_a_user_namespace,
    "use_io_uring": lambda: os.close(syscall("io_uring_setup", ctypes.c_uint(4), ctypes.create_string_buffer(120))),
    "replace_submit": replace_submit,
}


def main():
    outcomes = {}
    for name, attack in (FILES | PROCESSES | CONNECTIONS | PRIVILEGES).items():
        try:
            outcomes[name] = attack() is not False
        except (OSError, UnicodeDecodeError) as error:
            outcomes[name] = False
            print(f"{name}: {error}", file=sys.stderr)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
