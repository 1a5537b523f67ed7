"""Attacks of a hostile agent, with the standard library alone: each function returns whether it succeeded.

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
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "unshare": (272, 97), "mount": (165, 40), "keyctl": (250, 219), "add_key": (248, 217), "shmget": (29, 194),
    "io_uring_setup": (425, 425), "truncate": (76, 45), "bpf": (321, 280), "setns": (308, 268),
}  # fmt: skip
CANARY = FACTS["canary"]


def syscall(name, *arguments):
    result = LIBC.syscall(ctypes.c_long(NUMBERS[name][0 if X86 else 1]), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def reads(path):
    with open(path) as file:
        return CANARY in file.read(1 << 20)


def connects(address, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(3)
        one.connect(address)
        return one.recv(100).decode() == CANARY


# Files of the judge, of other runs, of the user


def read_the_ledger():
    return reads(FACTS["ledger"])


def read_hidden_results():
    return reads(FACTS["hidden"])


def read_another_runs_workspace():
    return reads(FACTS["other_workspace"])


def read_another_runs_door():
    return reads(FACTS["other_door_file"])


def read_the_sealing_key():
    return reads(FACTS["seal_key"])


def read_a_private_key_of_the_user():
    return reads(FACTS["ssh_key"])


def read_this_package():
    return "IsolationUnavailable" in open(os.path.join(FACTS["harness"], "evopolicygym", "errors.py")).read()


def import_a_simulator():
    sys.path.append(FACTS["site"])
    try:
        import gymnasium  # noqa: F401
    except (ImportError, OSError):
        return False
    finally:
        sys.path.pop()
    return True


def import_this_package():
    sys.path.append(FACTS["harness"])
    try:
        import evopolicygym  # noqa: F401
    except (ImportError, OSError):
        return False
    finally:
        sys.path.pop()
    return True


def import_with_the_systems_python():
    """Use the first Python of the system, told where the simulators are."""
    code = "import sys; sys.path.append(sys.argv[1]); import gymnasium"
    command = [FACTS["python"], "-I", "-c", code, FACTS["site"]]
    return subprocess.run(command, capture_output=True).returncode == 0


def list_the_run():
    return "ledger.jsonl" in os.listdir(FACTS["run"])


def follow_a_link_out():
    os.symlink(FACTS["ledger"], "link")
    try:
        return reads("link")
    finally:
        os.unlink("link")


def hard_link_out():
    os.link(FACTS["ledger"], "hard")
    return reads("hard")


def stat_a_file():
    return os.stat(FACTS["ledger"]).st_size > 0


def change_a_mode():
    os.chmod(FACTS["victim"], 0o777)
    return True


def append_to_the_ledger():
    with open(FACTS["ledger"], "a") as file:
        file.write("forged\n")
    return True


def truncate_a_file():
    syscall("truncate", FACTS["victim"].encode(), ctypes.c_long(0))
    return True


def open_to_truncate():
    os.close(os.open(FACTS["victim"], os.O_RDONLY | os.O_TRUNC))
    return True


def delete_a_file():
    os.unlink(FACTS["victim"])
    return True


def make_a_file_outside():
    open(os.path.join(FACTS["run"], "note"), "w").close()
    return os.path.exists(os.path.join(FACTS["run"], "note"))


def leave_a_note_in_shared_memory():
    """The host decides whether this succeeded: whether it sees the note."""
    with open(FACTS["shm_note"], "w") as file:
        file.write("note")
    return True


def leave_a_note_in_the_temporary_folder():
    with open(FACTS["tmp_note"], "w") as file:
        file.write("note")
    return True


# Processes


def read_the_judges_environment():
    return reads(f"/proc/{FACTS['judge']}/environ")


def read_the_judges_command_line():
    return "evopolicygym-victim" in open(f"/proc/{FACTS['judge']}/cmdline").read()


def read_the_judges_memory():
    open(f"/proc/{FACTS['judge']}/mem", "rb").close()
    return True


def read_the_judges_memory_map():
    return "[stack]" in open(f"/proc/{FACTS['judge']}/maps").read()


def reach_the_judges_root():
    return reads(f"/proc/{FACTS['judge']}/root{FACTS['ledger']}")


def list_the_judges_descriptors():
    return len(os.listdir(f"/proc/{FACTS['judge']}/fd")) > 0


def trace_the_judge():
    attach = 16
    syscall("ptrace", ctypes.c_long(attach), ctypes.c_long(FACTS["judge"]), None, None)
    os.waitpid(FACTS["judge"], 0x40000000)
    return True


def take_the_judges_descriptor():
    pidfd = syscall("pidfd_open", ctypes.c_int(FACTS["judge"]), ctypes.c_uint(0))
    return syscall("pidfd_getfd", ctypes.c_int(pidfd), ctypes.c_int(0), ctypes.c_uint(0)) >= 0


def signal_the_judge():
    os.kill(FACTS["judge"], signal.SIGUSR1)  # which it ignores
    return True


# Network and other ways to talk


def connect_to_another_door():
    return connects(("127.0.0.1", FACTS["other_door"]))


def connect_to_another_address():
    return connects(("127.0.0.2", FACTS["everywhere"]))


def connect_by_multipath():
    return connects(("127.0.0.1", FACTS["other_door"]), protocol=262)


def connect_in_a_send():
    fast_open = 0x20000000
    with socket.socket() as one:
        one.sendto(b"x", fast_open, ("127.0.0.1", FACTS["other_door"]))
        return one.recv(100).decode() == CANARY


def send_a_datagram():
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.settimeout(3)
        one.sendto(b"ask", ("127.0.0.1", FACTS["udp"]))
        return one.recv(100).decode() == CANARY


def connect_to_a_socket_file():
    return connects(FACTS["unix"], socket.AF_UNIX)


def connect_to_an_abstract_socket():
    return connects("\0" + FACTS["abstract"], socket.AF_UNIX)


def attach_shared_memory():
    return syscall("shmget", ctypes.c_int(FACTS["shm_key"]), ctypes.c_size_t(0), ctypes.c_int(0)) >= 0


def use_a_keyring():
    user_keyring = -4
    payload = b"note"
    syscall(
        "add_key", b"user", b"evopolicygym-note", payload, ctypes.c_size_t(len(payload)), ctypes.c_int(user_keyring)
    )
    return True


# Privilege


def make_a_user_namespace():
    child = os.fork()
    if child == 0:
        try:
            syscall("unshare", ctypes.c_int(0x10000000))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def use_io_uring():
    parameters = ctypes.create_string_buffer(120)
    os.close(syscall("io_uring_setup", ctypes.c_uint(4), parameters))
    return True


def replace_submit():
    """A judge that ran submit.py would run it with the judge's rights; it never does."""
    with open("submit.py", "w") as file:
        file.write(f"import sys; sys.exit(0 if {CANARY!r} in open({FACTS['ledger']!r}).read() else 1)\n")
    return subprocess.run([sys.executable, "submit.py"], capture_output=True).returncode == 0


ATTACKS = [name for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__]
ATTACKS = [name for name in ATTACKS if name not in ("syscall", "reads", "connects")]


def main():
    outcomes = {}
    for name in ATTACKS:
        try:
            outcomes[name] = bool(globals()[name]())
        except (OSError, UnicodeDecodeError) as error:
            outcomes[name] = False
            print(f"{name}: {error}", file=sys.stderr)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
