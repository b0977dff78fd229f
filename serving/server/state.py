"""The store behind a server."""

from __future__ import annotations

from serving.common.errors import InvalidArgument
from serving.config.server_config import ServerConfig
from serving.inference.model_states import ModelStates
from serving.state.errors import DataError
from serving.state.stores.open_store import open_store
from serving.state.stores.store import StoreUnavailable


def open_states(config: ServerConfig) -> ModelStates | None:
    """The store that completes requests; None without one.

    Raises:
        InvalidArgument: It cannot be opened.
    """
    if not config.state:
        return None
    takes_events = bool(config.push_token_file) or config.allow_push or config.is_local
    try:
        store = open_store(config.state, takes_events)
        reads = store.within(config.state_timeout_ms / 1e3)
    except (DataError, StoreUnavailable) as error:
        raise InvalidArgument(f"`state`: {error}") from None
    return ModelStates(store, reads, config.state_max_lag or None, takes_events)
