"""Scores of a trained model: of a table, of files, in micro-batches."""
