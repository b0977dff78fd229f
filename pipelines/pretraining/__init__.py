"""Sequence models from event logs: the experiment file, training, evaluation and export."""
