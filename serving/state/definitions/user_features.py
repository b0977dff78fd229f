"""The static features of users, which a store gives beside those over time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from serving.state.definitions.group import FORMAT


@dataclass(frozen=True)
class UserFeatures:
    """Features of a user that do not change from event to event.

    Attributes:
        key: Column of the user's id.
        columns: Names and types of the id and the features, in this order: strings, int64,
            float32, or lists of them.
    """

    key: str
    columns: pa.Schema

    @property
    def by(self) -> tuple[str, ...]:
        """The column of the key, as of a group."""
        return (self.key,)

    @property
    def features(self) -> tuple[pa.Field, ...]:
        """Names and types of the features."""
        return tuple(field for field in self.columns if field.name != self.key)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are equal for equal tables of features."""
        types = [(field.name, str(field.type)) for field in self.columns]
        text = json.dumps({"format": FORMAT, "users": self.key, "types": types})
        return hashlib.blake2b(text.encode(), digest_size=8).digest()
