"""Stores of blobs by key: LMDB on one machine, Valkey or Redis for many."""
