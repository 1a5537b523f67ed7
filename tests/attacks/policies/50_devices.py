"""Opens the raw disk, the machine's memory, the kernel's log."""

import os

from kit import any_works

ROOT = True
DEVICES = "/dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/port /dev/kmsg /dev/kvm /dev/fuse /proc/kcore".split()


def attack() -> bool:
    return any_works(*[lambda path=path: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) for path in DEVICES])
