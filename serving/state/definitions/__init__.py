"""Definitions of features over time, as the experiment file declares them."""
