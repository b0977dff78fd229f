"""The events of users, from which a next-item model scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.common.errors import InvalidArgument
from serving.common.request import Arrays
from serving.common.signature_names import DEFAULT_SIGNATURE, NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE
from serving.encoding.array_values import is_present
from serving.models.signature import Signature

_NEED_EVENTS = (DEFAULT_SIGNATURE, NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE)


class NeededEvents:
    """Rejects requests without any event, for which a causal model has the score 0 for each item.

    Args:
        signatures: Those of the model.
        manifest: That of an export of this project; None for other models, which may do without.
    """

    def __init__(
        self, signatures: Mapping[str, Signature], manifest: Mapping[str, Any] | None
    ) -> None:
        self._names: tuple[str, ...] = ()
        if manifest is None or manifest.get("scores_without_events"):
            return
        if {NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE} <= signatures.keys():
            self._names = tuple(sorted(signatures[RANK_SIGNATURE].context_names))

    def check(self, signature: str, inputs: Arrays) -> None:
        """Raises InvalidArgument if no row of a request has an event."""
        events = [inputs[name] for name in self._names if name in inputs]
        if signature not in _NEED_EVENTS or not events or len(events) < len(self._names):
            return  # the signature names the inputs that are missing
        if not any(is_present(array).any() for array in events):
            raise InvalidArgument(
                f"Feature {self._names[0]!r}: expected the events of the user, a list with one at "
                "least. Received: none. The model scores from events alone, also where the request "
                "names a user: for users without any, show the most popular items."
            )
