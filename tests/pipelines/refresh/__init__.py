"""The daily refresh of a served run."""
