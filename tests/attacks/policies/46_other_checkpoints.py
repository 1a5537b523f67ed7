"""Lists the store of checkpoints and reads what another agent has submitted."""

import os

from kit import FACTS, any_works, reads_secret


def attack() -> bool:
    stores = (FACTS["store"], "/store", "..", os.path.join(os.getcwd(), ".."))
    listings = [lambda store=store: FACTS["other"] in os.listdir(store) for store in stores]
    others = [lambda store=store: reads_secret(f"{store}/{FACTS['other']}/notes.json") for store in stores]
    return any_works(*listings, *others)
