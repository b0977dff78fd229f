"""Policies that choose the versions to serve: the newest, all, or specific ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from serving.common.errors import InvalidArgument


@dataclass(frozen=True)
class Latest:
    """Serves the `num_versions` newest versions that load."""

    num_versions: int = 1

    def __post_init__(self) -> None:
        if self.num_versions < 1:
            raise InvalidArgument(
                "The policy latest expects num_versions to be 1 or more. "
                f"Received: num_versions={self.num_versions}"
            )

    @property
    def limit(self) -> int | None:
        """Maximum number of versions; None for no limit."""
        return self.num_versions

    def candidates(self, numbers: Sequence[int]) -> Sequence[int]:
        """Returns the versions that may be served, in the given order."""
        return numbers


@dataclass(frozen=True)
class All:
    """Serves every version."""

    limit: ClassVar[int | None] = None

    def candidates(self, numbers: Sequence[int]) -> Sequence[int]:
        return numbers


@dataclass(frozen=True)
class Specific:
    """Serves the given versions."""

    versions: Collection[int]
    limit: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", frozenset(self.versions))
        if not self.versions:
            raise InvalidArgument(
                "The policy specific names no version. Expected: specific { versions: 42 }"
            )

    def candidates(self, numbers: Sequence[int]) -> Sequence[int]:
        return [number for number in numbers if number in self.versions]


Policy = Latest | All | Specific
