"""Event logs to sequences: one row per user with lists of events in the order of time."""
