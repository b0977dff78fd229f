"""Features over time and histories of users and items: one implementation, offline and online."""
