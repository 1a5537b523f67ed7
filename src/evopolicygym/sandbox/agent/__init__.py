"""The sandbox of agents: untrusted programs that fork, exec and connect, kept from the judge, other runs and
simulators."""
