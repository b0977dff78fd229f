"""The state of a key: what its features need of the past, as one blob."""
