"""Tuning: a search over settings of an experiment, on the validation rows."""
