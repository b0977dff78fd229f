"""Counts of the values of features and scores, and distances between two of them."""
