"""Episodes on the nodes of a Ray cluster: the head decides and records, seats on the nodes play."""
