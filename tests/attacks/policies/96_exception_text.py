"""Fails with text that is no text: lone surrogates, zeros, escape sequences, a line of a forged record."""

EXPECT = "act_error"
CONTROL = "same"


def attack() -> bool:
    raise ValueError('\ud800\udfff\0\x1b[2J\u202e\n{"kind": "score", "score": 1}\n' * 100)
