"""Logged requests and what became of them, as rows to train on and to report."""
