"""Analysis of finished runs: scores and leaderboards, comparisons, edits and diagnostics.

Pure functions from records and run folders to result objects. The entries are `loading.collect_runs`,
`leaderboard.build.leaderboard`, `compare.compare`, `analyze.analyze_runs` and `reproduce.reproduce`.
"""
