"""The lists of a history from ranges of its events."""

from __future__ import annotations

from typing import Any

import numpy as np

from serving.state.definitions.history_options import HistoryOptions
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.listed_values import from_words


def history_lists(
    states: KeyStates, place: int, ranges: tuple[np.ndarray, np.ndarray], moment: np.ndarray
) -> list[list[Any]]:
    """The values of some events, oldest first, or their ages.

    Args:
        states: The states.
        place: The history among the features of the group.
        ranges: `(rows,)` twice: the first event of each row, and the last one, exclusive.
        moment: `(rows,)`, the time from which ages count.
    """
    feature, past = states.group.features[place], states.pasts[place]
    if not isinstance(feature, HistoryOptions):
        raise TypeError(f"`place`: expected that of a history. Received: {feature.name!r}")
    kind = states.group.key_kinds[feature.of]
    lists: list[list[Any]] = []
    for first, last, at in zip(*ranges, moment, strict=True):
        if feature.ages:
            lists.append(((at - past.time[first:last]) / past.rule.second).tolist())
        else:
            known, words = past.parts[first:last].T
            lists.append(from_words(known, words.copy(), kind, states.texts))
    return lists
