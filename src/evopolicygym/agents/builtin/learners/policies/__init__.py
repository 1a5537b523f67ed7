"""Files of submitted policies: network.py is the policy, actor.py the network, with its numbers in weights.npz."""
