"""How episodes are played: engine, workers, the episode loop, recording, and the evaluation of one policy."""
