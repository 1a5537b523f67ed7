"""How runs went: pure functions over records. Imports none of the machinery."""
