"""The static features of users or of items, which a store gives beside those over time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa

from serving.state.definitions.group import FORMAT
from serving.state.definitions.key_kinds import KeyKind, key_kind

Entity = Literal["user", "item"]


@dataclass(frozen=True)
class StaticFeatures:
    """Features of a user or an item that do not change from event to event.

    Attributes:
        of: What has them: `"user"` or `"item"`.
        key: Column of the id.
        columns: Names and types of the id and the features, in this order: strings, int64,
            float32, or lists of them.
    """

    of: Entity
    key: str
    columns: pa.Schema

    @property
    def by(self) -> tuple[str, ...]:
        """The column of the key, as of a group."""
        return (self.key,)

    @cached_property
    def key_kinds(self) -> dict[str, KeyKind]:
        """The kind of key of the id, as of a group."""
        return {self.key: key_kind(self.columns.field(self.key).type)}

    @cached_property
    def features(self) -> tuple[pa.Field, ...]:
        """Names and types of the features."""
        return tuple(field for field in self.columns if field.name != self.key)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are equal for equal tables of features."""
        types = [(field.name, str(field.type)) for field in self.columns]
        text = json.dumps({"format": FORMAT, f"{self.of}s": self.key, "types": types})
        return hashlib.blake2b(text.encode(), digest_size=8).digest()
