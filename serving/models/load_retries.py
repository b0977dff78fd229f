"""Versions that failed to load: the error of each, and the time of its next attempt."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass

import tensorflow as tf

from serving.common.errors import Internal, ServingError, StateNotReady, from_code
from serving.models.version_dirs import Fingerprint

_MAX_DOUBLINGS = 32  # the wait has reached the interval long before

_STATE_SECONDS = 2.0  # between two looks whether the store has a state


@dataclass(frozen=True)
class _Failure:
    error: ServingError
    attempts: int
    folder: Fingerprint
    wait_seconds: float
    retry_at: float  # on the clock of time.monotonic


class LoadRetries:
    """Failed loads of one model; a version whose folder changes is tried again at once.

    A version whose state is not in the store yet is tried until it is.

    Args:
        times: Attempts after the first one; infinity for as many as it takes.
        interval_seconds: Time between two attempts.
        first_seconds: Time until the second attempt, if shorter; it doubles with each.
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
        """The error of each version that failed and has not been loaded since."""
        return {number: failure.error for number, failure in self._failures.items()}

    def may_try(self, number: int, folder: Fingerprint) -> bool:
        """Returns whether a version may be loaded now, from its folder in this state."""
        failure = self._failures.get(number)
        if failure is None or failure.folder != folder:
            self.forget(number)
            return True
        return failure.attempts <= self._times and time.monotonic() >= failure.retry_at

    def failed(self, number: int, folder: Fingerprint, error: Exception) -> ServingError:
        """Records a failed load of this folder state and returns the error to report."""
        attempts = self._failures[number].attempts + 1 if number in self._failures else 1
        if isinstance(error, StateNotReady):
            attempts = 0  # it does not count, so that there is always a next one
        reported = _without_frames(error)
        doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
        wait = min(self._interval_seconds, self._first_seconds * 2**doublings)
        if not attempts:
            wait = min(wait, _STATE_SECONDS)
        retry_at = time.monotonic() + wait
        self._failures[number] = _Failure(reported, attempts, folder, wait, retry_at)
        return reported

    def waits_for_state(self, number: int) -> bool:
        """Returns whether the last load failed because the store had no state yet."""
        failure = self._failures.get(number)
        return failure is not None and not failure.attempts

    def next_attempt(self, number: int) -> str:
        """Describes when a failed version is tried again."""
        failure = self._failures[number]
        if failure.attempts > self._times:
            return "when its folder changes"
        return f"in {failure.wait_seconds:g} s, or when its folder changes"

    def forget(self, number: int) -> None:
        """Forgets the failures of a version."""
        self._failures.pop(number, None)

    def keep_only(self, numbers: Container[int]) -> None:
        """Forgets the failures of all other versions: their folders were deleted."""
        self._failures = {n: failure for n, failure in self._failures.items() if n in numbers}


def _without_frames(error: Exception) -> ServingError:
    """Returns code and message only: stack frames would keep half a model in memory."""
    if isinstance(error, ServingError):
        return from_code(error.code.value[0], str(error))
    if isinstance(error, tf.errors.OpError):
        return from_code(error.error_code, error.message)
    return Internal(f"{type(error).__name__}: {error}")
