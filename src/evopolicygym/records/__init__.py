"""What is written down for others: the published shape of run.json. Imports none of the machinery."""
