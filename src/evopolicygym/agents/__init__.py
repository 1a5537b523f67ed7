"""Who plays: coding CLIs as data, any command, built-ins; what a turn of theirs was, and what it cost."""
