"""Interaction of two features in a model, by what their permutations lose together and alone."""

from __future__ import annotations
