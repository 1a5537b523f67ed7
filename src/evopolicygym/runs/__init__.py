"""One run: its folder, its settings, who owns it, its record."""
