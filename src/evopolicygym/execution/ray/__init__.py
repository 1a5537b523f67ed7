"""Episodes on the nodes of a Ray cluster: the head decides and records, workers on the nodes play."""
