"""Bit-exact faster versions of slow stock environments, each with its certificate in tests/fast."""
