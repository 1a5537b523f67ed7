"""Draw docs/images/demo.svg from the output of the demo:

evopolicygym demo | python benchmarks/demo_picture.py docs/images/demo.svg
"""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.text import Text


def main(picture: str) -> None:
    lines = [line.rstrip("\n") for line in sys.stdin]
    console = Console(record=True, width=max(map(len, lines)) + 1, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ make demo", style="bold green"))
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    console.save_svg(picture, title="EvoPolicyGym")


if __name__ == "__main__":
    main(sys.argv[1])
