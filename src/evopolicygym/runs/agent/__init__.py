"""The agent of a run: how it is set up, started, limited, prompted again, and how its output is kept."""
