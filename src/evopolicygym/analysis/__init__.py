"""How it went: scores, ranks, intervals, comparisons. Pure functions over records; none of the machinery."""
