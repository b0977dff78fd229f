"""Loaded versions, and the reconciliation of the wanted with the loaded ones."""
