"""Encodings of numbers: from values to vectors, one class for each name."""
