"""Proposes an experiment for a log, and warns of columns that are known only afterwards."""
