"""Keys of events: their order is that of time, and those of old buckets are old."""

from __future__ import annotations

import numpy as np
import pytest

from serving.state.past.repeats import event_keys, first_bucket


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("late", [None, 4, 2.5])
def test_keys_of_events_are_in_the_order_of_time(kind: type, late: float | None) -> None:
    time = np.array([-1e9, -5.5, -1, 0, 0, 0.3, 2.4, 2.6, 9, 1e9]).astype(kind)
    ids = np.stack([np.arange(len(time)), -np.arange(len(time))], axis=1)
    made = event_keys(time, ids, late)
    order = sorted(range(len(made)), key=made.__getitem__)
    np.testing.assert_array_equal(time[order], time)
    assert len({*made}) == len(made)
    if late is not None:
        for newest in time:
            for event, of_event in zip(made, time, strict=True):
                assert event >= first_bucket(newest, late) or of_event < newest - late
