"""Batching: computes several requests together, and splits the results."""
