"""Notes of a store beside its cells: their names follow the fingerprint of a group."""

from __future__ import annotations

from serving.state.definitions.group import Group
from serving.state.keyed.key_states import no_time
from serving.state.stores.store import Store

NEWEST = b"newest"  # time of the newest row, in the unit of the log's times
LOADED = b"loaded"  # there once a whole state was loaded
FOLLOWED = b"followed"  # seconds since 1970 when a follower had last read all of its log


def read_newest(store: Store, group: Group) -> int | float:
    """The time of the newest row that a group has seen; `no_time` if it has seen none."""
    name = group.fingerprint + NEWEST
    note = store.notes(name).get(name)
    if note is None:
        return no_time(group)
    return float(note) if group.has_float_times else int(note)
