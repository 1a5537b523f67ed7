"""What is decided: ledger, budget, the way of a submission, verdicts, selection, score."""
