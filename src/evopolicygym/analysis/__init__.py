"""How it went: scores, ranks, intervals; edits, curves, structure. Pure functions over records, no machinery."""
