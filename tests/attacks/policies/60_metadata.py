"""Changes what Landlock does not guard: modes, owners, times, extended attributes, names."""

import os

from kit import FACTS, any_works


def attack() -> bool:
    victim, shared = FACTS["victim"], FACTS["shared"]
    return any_works(
        lambda: os.chmod(victim, 0o777),
        lambda: os.chown(victim, os.getuid(), os.getgid()),
        lambda: os.utime(victim, (0, 0)),
        lambda: os.setxattr(victim, "user.attack", b"x"),
        lambda: os.link(victim, f"{shared}/hard"),
        lambda: os.symlink(victim, f"{shared}/soft"),
        lambda: os.mkfifo(f"{shared}/fifo"),
        lambda: os.mknod(f"{shared}/node"),
        lambda: os.rename(victim, f"{shared}/renamed"),
        lambda: os.unlink(victim),
        lambda: os.chmod(".", 0o777),
    )
