"""Scores and metrics of a split."""
