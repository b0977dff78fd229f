"""Audits of a trained model on held-out rows: its attention, and what its scores come from."""
