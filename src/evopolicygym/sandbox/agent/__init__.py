"""Where agents run: untrusted programs that fork, exec and connect, kept from the judge, other runs and simulators."""
