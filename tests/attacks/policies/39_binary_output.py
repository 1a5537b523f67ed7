"""Prints escape sequences, half a character, zeros and lone surrogates: text that breaks terminals, JSON and
decoders."""

import os
import sys

CONTROL = "same"


def attack() -> bool:
    print("\x1b]0;owned\x07\x1b[2J\ud800\0{\"score\": 1}\u202e")
    print("\udfff\0", file=sys.stderr)
    for descriptor in (1, 2):
        os.write(descriptor, b"\xff\xfe\xc3\0\xf0\x9f")
    return False
