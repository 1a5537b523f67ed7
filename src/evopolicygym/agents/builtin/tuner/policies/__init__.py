"""Submitted policies: each file is the whole policy of one family, with its numbers in parameters.json beside it."""
