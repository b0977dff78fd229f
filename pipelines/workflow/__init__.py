"""The steps of an experiment in its run folder: each runs unless nothing has changed."""
