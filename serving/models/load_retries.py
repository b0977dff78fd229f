"""Versions that failed to load: why, and when each is tried again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from serving.common.errors import Internal, ServingError, from_code
from serving.models.version_dirs import Fingerprint, fingerprint

_DOUBLINGS = 32  # of a wait, which is an interval long before


@dataclass(frozen=True)
class _Failure:
    error: ServingError
    attempts: int
    folder: Fingerprint
    wait_seconds: float
    retry_at: float  # as time.monotonic() counts


class LoadRetries:
    """Lets a version be tried again a number of times, and anew when its folder has changed.

    Args:
        times: How often, after the first try; infinity: as long as there is something to try.
        interval_seconds: Time between two tries.
        first_seconds: Time until the second try, where it is to be less; it doubles with each.
    """

    def __init__(
        self, times: float, interval_seconds: float, first_seconds: float = math.inf
    ) -> None:
        self._times = times
        self._interval_seconds = interval_seconds
        self._first_seconds = first_seconds
        self._failures: dict[int, _Failure] = {}

    @property
    def errors(self) -> Mapping[int, ServingError]:
        """Why each version failed that has not been loaded since."""
        return {number: failure.error for number, failure in self._failures.items()}

    def may_try(self, number: int, path: Path) -> bool:
        failure = self._failures.get(number)
        if failure is None:
            return True
        if failure.folder != fingerprint(path):
            del self._failures[number]
            return True
        return failure.attempts <= self._times and time.monotonic() >= failure.retry_at

    def failed(self, number: int, folder: Fingerprint, error: Exception) -> ServingError:
        """Remembers a failure of the folder as it was before the try; returns it as it is told."""
        attempts = self._failures[number].attempts + 1 if number in self._failures else 1
        told = _without_frames(error)
        wait = min(self._interval_seconds, self._first_seconds * 2 ** min(attempts - 1, _DOUBLINGS))
        retry_at = time.monotonic() + wait
        self._failures[number] = _Failure(told, attempts, folder, wait, retry_at)
        return told

    def next_try(self, number: int) -> str:
        """When a version that failed is tried again, in words."""
        failure = self._failures[number]
        if failure.attempts > self._times:
            return "when its folder changes"
        return f"in {failure.wait_seconds:g} s, or when its folder changes"

    def forget(self, number: int) -> None:
        self._failures.pop(number, None)

    def forget_all(self) -> None:
        self._failures.clear()


def _without_frames(error: Exception) -> ServingError:
    """The error as code and words. Its frames would keep half a model in memory."""
    if isinstance(error, ServingError):
        return from_code(error.code.value[0], str(error))
    if isinstance(error, tf.errors.OpError):
        return from_code(error.error_code, error.message)
    return Internal(f"{type(error).__name__}: {error}")
