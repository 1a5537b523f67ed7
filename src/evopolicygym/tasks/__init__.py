"""Tasks with their contract texts, spaces, splits and ids, and how their environments are made."""
