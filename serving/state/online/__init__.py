"""A state online: events are added to a store, and values are read from it."""
