"""Metrics, access log, prediction log, spans and shadow traffic."""
