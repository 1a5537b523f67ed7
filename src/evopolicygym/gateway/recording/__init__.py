"""The recording of a run's calls to its model: how it is stored and read, and how a run is replayed from it."""
