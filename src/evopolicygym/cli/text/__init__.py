"""Results as commands print them, one module for each kind of result."""
