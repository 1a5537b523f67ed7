"""Writes into the feedback folder: forged feedback, or a link that the judge would follow when it writes there."""

import os

from kit import FACTS, any_works


def attack() -> bool:
    place = os.path.join(FACTS["feedback"], "summary")
    return any_works(
        lambda: open(f"{place}.json", "w").close(),
        lambda: os.symlink(FACTS["victim"], f"{place}.link"),
        lambda: os.link(FACTS["victim"], f"{place}.hard"),
        lambda: os.mkfifo(f"{place}.fifo"),
    )
