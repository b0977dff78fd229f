"""The store behind a server."""

from __future__ import annotations

from serving.common.errors import InvalidArgument
from serving.config.server_config import ServerConfig
from serving.inference.state_inputs import StateOptions
from serving.state.errors import DataError
from serving.state.stores.open_store import open_store


def open_state(config: ServerConfig) -> StateOptions | None:
    """The store that completes requests; None without one.

    Raises:
        InvalidArgument: It cannot be opened.
    """
    if not config.state:
        return None
    try:
        store = open_store(config.state, writes=False)
    except DataError as error:
        raise InvalidArgument(f"`state`: {error}") from None
    return StateOptions(store, config.state_max_lag or None)
