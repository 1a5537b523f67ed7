"""Write golden files again: ``python tests/golden/write.py [NAME...]``; without a name, all of them.

For changes that are meant to change what is on disk, on the wire or in numbers: run it, read the diff, and commit it
with the change. ``ledger`` is the ledger with every kind of event.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # conftest and the other helpers

from golden_facts import FACTS
from golden_files import save
from golden_ledger import LEDGER, timed_events, write_ledger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["ledger", *FACTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    chosen = parser.parse_args().names or names
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no golden file {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    for name in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            if name == "ledger":
                LEDGER.write_bytes(write_ledger(Path(scratch, "ledger.jsonl"), timed_events()))
            else:
                save(name, json.loads(json.dumps(FACTS[name](Path(scratch)))))
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
