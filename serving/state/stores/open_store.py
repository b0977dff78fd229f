"""Opens the store of an address."""

from __future__ import annotations

from pathlib import Path

from serving.state.errors import DataError
from serving.state.stores.store import Store


def open_store(url: str, writes: bool = True) -> Store:
    """The store of an address.

    Args:
        url: `lmdb:FOLDER`, a folder of this machine; or `redis://HOST:PORT/0`, a server of Valkey
            or Redis (`rediss://` with TLS, `USER:PASSWORD@` before the host, `redis+cluster://`
            for a cluster).
        writes: Whether this process may write.

    Raises:
        DataError: The address is of no store, or the store cannot be opened.
        StoreUnavailable: No node of a cluster answers.
    """
    scheme, _, place = url.partition(":")
    if scheme == "lmdb" and place:
        from serving.state.stores.lmdb_store import LmdbStore

        return LmdbStore(Path(place.removeprefix("//")), writes)
    if scheme.removesuffix("+cluster") in ("redis", "rediss") and place:
        try:
            from serving.state.stores.redis_store import RedisStore
        except ModuleNotFoundError:
            raise DataError(
                'redis is not installed, which redis:// needs: pip install "recsys-attn[redis]".'
            ) from None
        return RedisStore(url)
    raise DataError(
        "The store: expected lmdb:FOLDER or redis://HOST:PORT/0. Received: "
        f"{url.rpartition('@')[2]!r}."  # a password stays unseen
    )
