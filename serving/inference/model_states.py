"""The store behind a server, and the states that its loaded versions read."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from serving.common.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from serving.encoding.events import PushedRows, Rows
from serving.models.model import Model
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.static_features import Entity, StaticFeatures
from serving.state.errors import DataError
from serving.state.online.profiles import profile_rows, push_profiles
from serving.state.online.writer import Added, Prepared, StateWriter
from serving.state.stores.store import Store, StoreUnavailable


class ModelStates:
    """The states of the loaded versions.

    Args:
        store: The store, for events and loads.
        reads: The same for requests, which do not wait for long.
        max_lag: Seconds by which a state may be behind its log when a version begins to serve;
            None for any.
        takes_events: Whether this server may write to the store.
    """

    def __init__(
        self,
        store: Store,
        reads: Store,
        max_lag: float | None = None,
        takes_events: bool = False,
    ) -> None:
        self.store, self.reads = store, reads
        self.max_lag = max_lag
        self._takes_events = takes_events
        self._definitions = weakref.WeakKeyDictionary[Model, StateDefinition]()

    def add(self, model: Model, definition: StateDefinition) -> None:
        """Adds a version, which leaves once it is unloaded."""
        self._definitions[model] = definition

    def size(self) -> float:
        """Bytes that the store uses; NaN while it does not answer."""
        try:
            return float(self.store.size())
        except StoreUnavailable:
            return math.nan

    def push(self, name: str, rows: PushedRows) -> Added:
        """Adds events and static features to the states of all loaded versions of a model.

        Args:
            name: Name of the model; empty for the only one that has a state.
            rows: The events and the static features.

        Raises:
            InvalidArgument: A row lacks a column, or a value does not fit; nothing is added.
            NotFound: No version of the model is loaded that has a state.
            FailedPrecondition: This server only reads the store.
            Unavailable: The store cannot be written.
        """
        if not self._takes_events:
            raise FailedPrecondition(
                "This server only reads its store. Start it with `push_token_file` to push events."
            )
        models = [(model.name, of) for model, of in self._definitions.items()]
        if not name and len({of for of, _ in models}) == 1:
            name = models[0][0]
        definitions = [definition for of, definition in models if of == name]
        if not definitions:
            names = ", ".join(sorted({repr(of) for of, _ in models})) or "none"
            raise NotFound(
                f"`model`: expected a model with a state that is loaded ({names}). Received: "
                f"{name!r}"
            )
        try:
            return self._push(definitions, rows)
        except DataError as error:
            raise InvalidArgument(str(error)) from None
        except StoreUnavailable as error:
            raise Unavailable(f"{error} Push it again.") from None

    def _push(self, definitions: Sequence[StateDefinition], rows: PushedRows) -> Added:
        """Checks all rows for all versions, then writes them."""
        events = self._events(definitions, rows.events) if rows.events else []
        profiles = [
            *_profiles(definitions, "user", rows.users),
            *_profiles(definitions, "item", rows.items),
        ]
        for static, of_static in profiles:
            push_profiles(self.store, static, of_static)
        results = [prepared.write() for prepared in events]
        if not results:
            return Added(*np.zeros((3, 0), bool))
        return Added(
            np.any([added.late for added in results], axis=0),
            np.any([added.ahead for added in results], axis=0),
            np.all([added.repeated for added in results], axis=0),
        )

    def _events(self, definitions: Sequence[StateDefinition], events: Rows) -> list[Prepared]:
        """Events once for each group, as versions with equal groups share them.

        Versions that have static features alone are left out, if another one counts events.
        """
        written: set[bytes] = set()
        prepared = []
        for definition in [of for of in definitions if of.features] or definitions:
            groups = [g for g in definition.groups if g.fingerprint not in written]
            written |= {group.fingerprint for group in groups}
            prepared.append(StateWriter(self.store, definition).prepare_events(events, groups))
        return prepared

    def close(self) -> None:
        """Ends the use of the store."""
        self.reads.close()
        self.store.close()


def _profiles(
    definitions: Sequence[StateDefinition], of: Entity, profiles: Rows
) -> list[tuple[StaticFeatures, pa.Table]]:
    """Profiles once for each table of static features, as versions with equal ones share them.

    Versions without such features are left out, if another one has some.
    """
    if not profiles:
        return []
    having = [d for d in definitions if any(static.of == of for static in d.static)]
    statics = [definition.static_of(of) for definition in having or definitions]
    by_fingerprint = {static.fingerprint: static for static in statics}
    return [(static, profile_rows(static, profiles)) for static in by_fingerprint.values()]
