"""Shared by all folders: errors, progress, atomic files, the base of TOML tables."""
