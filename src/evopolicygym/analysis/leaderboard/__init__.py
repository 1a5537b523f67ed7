"""The leaderboard: which runs share a board, the table of each task, aggregates over tasks, costs."""
