"""The agent's door: HTTP on loopback, and the client that ships in the workspace."""
