"""The HTTP API that an agent uses, the queue of submissions behind it, and the client in the workspace."""
