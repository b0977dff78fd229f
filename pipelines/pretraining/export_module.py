"""The exported module of a sequence model: raw events in, items and scores out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.export.raw_inputs import RANK_SIGNATURE, ROWS_SIGNATURE
from pipelines.export.serving_module import concrete
from pipelines.features import FittedFeatures
from pipelines.features.graph import FeatureGraph, raw_dtype
from recsys_attn.models import SequenceModel
from recsys_attn.schema import RESERVED_IDS, Sequence, is_age
from serving.state.columns.missing import MISSING

NEXT_ITEMS = "next_items"
EXCLUDE, CANDIDATES, SCORE = "exclude", "candidate", "score"
ITEMS, SCORES = "items", "scores"  # outputs


class NextItemModule(tf.Module):
    """Finds the next items of histories in the whole catalogue, and scores given ones.

    `next_items`, also as `serving_default`, takes the events of users, a list `(B, S)` by sequence
    and oldest first, and items to leave out, `exclude` `(B, X)`, which may be empty. It returns
    `items` and `scores` `(B, top)`, best first; where fewer items are left, the missing value with
    the score -inf. `rank` takes the events and `candidate` `(B, T)` and returns `score` `(B, T)`;
    an unknown candidate has the score NaN.

    Ages are inputs only where the model reads them. Lists are padded on the right with the missing
    value. Items that the vocabulary lacks are events of an unknown item; a user without events gets
    the scores of a history without any.

    Args:
        model: The model.
        fitted: The transforms of the sequences that it sees; `without_unread_ages`.
        values: The items in the order of their ids, without the reserved ones.
        top: Number of items that are returned.
        filter_seen: Whether items of the history are left out.
    """

    def __init__(
        self,
        model: SequenceModel,
        fitted: FittedFeatures,
        values: np.ndarray,
        top: int,
        filter_seen: bool,
    ) -> None:
        super().__init__()
        self.features = FeatureGraph(fitted)
        self.model_variables = [variable.value for variable in model.variables]
        self._model = model
        self._item: Any = fitted.schema[model.item]
        missing = MISSING[self._item.dtype]
        self.values = tf.Variable([missing, missing, *values.tolist()], trainable=False)
        self._top = min(top, len(values))
        self._filter_seen = filter_seen

    @property
    def events(self) -> dict[str, tf.TensorSpec]:
        """The inputs of events."""
        features = self.features.schema.features
        return {f.name: tf.TensorSpec([None, None], raw_dtype(f)) for f in features}

    @property
    def items(self) -> tf.TensorSpec:
        """The input of items."""
        return tf.TensorSpec([None, None], raw_dtype(self._item))

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        next_items = concrete(self._next_items, {**self.events, EXCLUDE: self.items})
        ranked = concrete(self._rank, {**self.events, CANDIDATES: self.items})
        return {ROWS_SIGNATURE: next_items, NEXT_ITEMS: next_items, RANK_SIGNATURE: ranked}

    def inputs(self, raw: Mapping[str, tf.Tensor], whole: bool = False) -> dict[str, tf.Tensor]:
        """Returns the model's inputs, with ages of 0 where the model does not read them.

        They are those of the last `max_length` events, side by side; with `whole` those of all
        events, with the gaps between them.
        """
        lists = {name: tf.shape(raw[name])[1] for name in self.events}
        first = lists[self._item.name]
        for name, length in lists.items():
            tf.debugging.assert_equal(
                length,
                first,
                f"`{name}` and `{self._item.name}` must list the same events: their lists are not "
                "equally long, or one was not sent",
            )
        ids = self._all(raw) if whole else self.features(raw)
        items = ids[self._item.name]
        return {s.name: ids.get(s.name, tf.zeros_like(items)) for s in self._model.sequences}

    def _all(self, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        ((history, sequences),) = self.features.schema.histories.items()
        events = self.features.events(raw)[history]
        return {s.name: ids for s, ids in zip(sequences, events, strict=True)}

    def _next_items(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        left_out = [self.ids(raw.pop(EXCLUDE))]
        if self._filter_seen:
            left_out.append(self.ids(raw[self._item.name]))
        return self.best_items(self._states(raw), tf.concat(left_out, axis=1))

    def best_items(self, states: tf.Tensor, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the best items of states `(B, K)` without those of the ids `(B, X)`."""
        scores = self._model.scores(states)
        rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(ids))
        places = tf.stack([tf.reshape(rows, [-1]), tf.reshape(ids, [-1])], axis=1)
        lowest = tf.fill([tf.shape(places)[0]], -np.inf)
        scores = tf.tensor_scatter_nd_update(scores, places, tf.cast(lowest, scores.dtype))
        best, places = tf.math.top_k(scores[:, RESERVED_IDS:], self._top)
        chosen = tf.where(tf.math.is_finite(best), places + RESERVED_IDS, 0)
        return {ITEMS: tf.gather(self.values, chosen), SCORES: best}

    def _rank(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        candidates = raw.pop(CANDIDATES)
        return {SCORE: self.scores_of(self._states(raw), candidates)}

    def scores_of(self, states: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Returns the scores `(B, T)` of raw candidates, NaN for unknown ones."""
        ids = self.ids(candidates)
        queries = self._model.queries(states)
        vectors, offsets = self._model.rows(ids)
        scores = tf.einsum("be,bte->bt", queries, vectors)
        scores = scores if offsets is None else scores + offsets
        return tf.where(ids >= RESERVED_IDS, scores, np.nan)

    def _states(self, raw: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return self._model.next_states(self.inputs(raw), training=False)

    def ids(self, raw: tf.Tensor) -> tf.Tensor:
        """Returns the ids of raw items."""
        return self.features.functions[self._item.name](raw)


def without_unread_ages(fitted: FittedFeatures, model: SequenceModel) -> FittedFeatures:
    """Returns the transforms without the ages of events that the model does not read."""
    if model.encoder.uses_times:
        return fitted
    return fitted.without(tuple(s.name for s in model.sequences if is_age(s)))


def inputs_of(fitted: FittedFeatures) -> dict[str, dict[str, Any]]:
    """The events' inputs, as the manifest has them."""
    return {
        f.name: {"dtype": raw_dtype(f).name, "rank": 2, "side": "context"}
        for f in fitted.schema.features
        if isinstance(f, Sequence)
    }
