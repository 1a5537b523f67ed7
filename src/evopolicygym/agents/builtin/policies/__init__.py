"""Files of submitted policies: one `policy.py` for each family of the tuner, with its numbers in parameters.json, and
network.py of the learners, with actor.py and weights.npz; features.py goes with all of them."""
