"""Assembly of a server: its parts, start, signals and shutdown."""
