"""Requests that are computed together: what may join, in whose thread, and how it is put apart."""
