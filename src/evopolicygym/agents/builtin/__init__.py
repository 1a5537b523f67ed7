"""Built-in agents: separate programs that run where this package cannot be imported."""
