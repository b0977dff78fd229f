"""The past of keys: the events that each feature keeps, and its values at any moment."""
