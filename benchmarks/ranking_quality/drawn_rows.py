"""Rows of a log of positives, with items drawn beside each of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DRAWN = 2  # items beside each event


def drawn_rows(events: pa.Table) -> pa.Table:
    """The events of RetailRocket as impressions of three items in random order.

    The other items are those of other events, so that popularity says little.

    Args:
        events: Columns user, item, time and action, where the action of a cart or a purchase is
            "cart" or "buy".

    Returns:
        Columns impression, user, item, time, viewed (1 for the event's item) and carted (null where
        not viewed).
    """
    events, rng = events.sort_by("time"), np.random.default_rng(0)
    count, item = len(events), events["item"].to_numpy()
    others = item[rng.integers(0, count, (count, DRAWN))]
    while (same := others == item[:, None]).any():
        others[same] = item[rng.integers(0, count, same.sum())]
    order = rng.permuted(np.tile(np.arange(DRAWN + 1), (count, 1)), axis=1)
    items = np.take_along_axis(np.column_stack([item, others]), order, axis=1)
    viewed = (order == 0).ravel()
    row = np.repeat(np.arange(count), DRAWN + 1)
    carted = pc.is_in(events["action"].cast("string"), pa.array(["cart", "buy"])).to_numpy()
    carts = np.where(viewed, carted[row].astype(float), np.nan)
    return pa.table(
        {
            "impression": row,
            "user": events["user"].take(row),
            "item": items.ravel(),
            "time": events["time"].take(row),
            "viewed": viewed.astype("int8"),
            "carted": pa.array(carts, from_pandas=True),
        }
    )
