"""Notes of a store beside its cells: their names follow the fingerprint of a group."""

from __future__ import annotations

NEWEST = b"newest"  # time of the newest row, in the unit of the log's times
LOADED = b"loaded"  # there once a whole state was loaded
FOLLOWED = b"followed"  # seconds since 1970 when a follower had last read all of its log
