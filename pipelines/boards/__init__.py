"""Boards: several models on one data set, with several seeds, beside published numbers."""
