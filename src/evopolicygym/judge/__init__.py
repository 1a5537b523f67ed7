"""Decisions about a run: ledger and state, submissions and verdicts, feedback, selection and score."""
