"""Opens the store of an address."""

from __future__ import annotations

from pathlib import Path

from serving.state.errors import DataError
from serving.state.stores.store import Store


def open_store(url: str, writes: bool = True) -> Store:
    """The store of an address: `lmdb:FOLDER`, a folder of this machine.

    Args:
        url: The address.
        writes: Whether this process may write.

    Raises:
        DataError: The address is of no store, or the store cannot be opened.
    """
    scheme, _, place = url.partition(":")
    if scheme == "lmdb" and place:
        from serving.state.stores.lmdb_store import LmdbStore

        return LmdbStore(Path(place.removeprefix("//")), writes)
    raise DataError(f"The store: expected lmdb:FOLDER. Received: {url!r}.")
