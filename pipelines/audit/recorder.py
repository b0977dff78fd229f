"""The attention of a trained model on some rows, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.feed import Batch
from pipelines.feed.batch import BatchSize, assemble
from pipelines.feed.chunk import Chunk
from pipelines.feed.tensors import block_specs, block_tensors
from recsys_attn.attention import HeadsCall, dense_weights
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import AttentionPlace, watch_attention
from recsys_attn.models.encoded_history import EncodedHistory
from recsys_attn.schema import CANDIDATE_MASK, RESERVED_IDS, Schema, is_age

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
RAREST = "rarest event"
MOST_REQUESTS = 256
MOST_PAIRS = 2**22  # of queries and keys in a batch, for each head


class AttentionRecord(NamedTuple):
    """The attention of one place on one batch. Events stand oldest first, without gaps.

    Attributes:
        place: The place in the model.
        weights: The share of each key, (B, N, T, S): absolute weights that sum to 1, or to 0 where
            nothing is attended. None for a mechanism that makes none.
        output: Of each head, (B, T, N, V).
        value: Of each head, (B, S, N, V).
        queries: (B, T), False for padding.
        keys: (B, S), False for padding.
        requests: The request of each entry of the first axis, (B,).
        relations: By name, the pairs of a query and a key that it holds for, (B, T, S): of events,
            whether they share an id with the query, or are the rarest of the history.
    """

    place: AttentionPlace
    weights: Floats | None
    output: Floats
    value: Floats
    queries: Bools
    keys: Bools
    requests: NDArray[np.integer[Any]]
    relations: Mapping[str, Bools]

    @property
    def shares(self) -> Floats:
        """The weights of a mechanism that makes some."""
        if self.weights is None:
            raise ValueError(f"{self.place}: its mechanism makes no weights.")
        return self.weights


class Recorder:
    """Runs a model and keeps its attention.

    Args:
        model: The model.
        chunk: The rows.
    """

    def __init__(self, model: RankingModel, chunk: Chunk) -> None:
        self._model, self._chunk = model, chunk
        self._places: list[AttentionPlace] = []
        self._frequencies = dict(_frequencies(model.schema, chunk))
        specs = block_specs(chunk.layout)
        self._recorded = tf.function(self._record, input_signature=[specs], autograph=False)

    def batches(self) -> Iterator[tuple[Batch, list[AttentionRecord], Mapping[str, Floats]]]:
        """The batches, the attention of each, and the gates of the experts `(B, T, experts)`.

        The gates are those of `explain`, by task.
        """
        lengths, first = np.diff(self._chunk.starts), 0
        for begin, end in self._size().cut(lengths):
            piece = (self._chunk, np.arange(begin, end))
            batch = Batch(assemble([piece], BatchSize(end - begin)), self._chunk.layout)
            tensors = self._recorded(block_tensors(batch.blocks))
            attended = [
                self._record_of(batch, place, calls, tensors["events"], first)
                for place, calls in zip(self._places, tensors["calls"], strict=True)
            ]
            gates = {task: gate.numpy() for task, gate in tensors["gates"].items()}
            yield batch, attended, gates
            first += end - begin

    def _size(self) -> BatchSize:
        longest = max(
            (sequences[0].max_length for sequences in self._model.schema.histories.values()),
            default=1,
        )
        return BatchSize(min(MOST_REQUESTS, max(1, MOST_PAIRS // longest**2)))

    def _record(self, blocks: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        calls: list[dict[str, tf.Tensor]] = []
        self._places.clear()

        def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
            self._places.append(place)
            calls.append(_tensors(call))
            return call

        embedded = self._model.embedding(self._chunk.layout.inputs(blocks))
        gates: dict[str, tf.Tensor] = {}
        with watch_attention(self._model, visit):
            if self._model.explanations:
                _, explanation = self._model.tower(embedded, training=False, explain=True)
                gates = {
                    name.removeprefix("gate/"): gate
                    for name, gate in explanation.items()
                    if name.startswith("gate/") and self._model.tower.has_experts
                }
            else:
                self._model.tower(embedded, training=False)
        events = {name: history["event_mask"] for name, history in embedded["histories"].items()}
        return {"calls": calls, "events": events, "gates": gates}

    def _record_of(
        self,
        batch: Batch,
        place: AttentionPlace,
        call: Mapping[str, tf.Tensor],
        events: Mapping[str, tf.Tensor],
        first: int,
    ) -> AttentionRecord:
        arrays = {name: tensor.numpy() for name, tensor in call.items()}
        output, value, keys = arrays["output"], arrays["value"], arrays["keys"]
        entries, queries = output.shape[:2]
        candidates = batch.blocks[CANDIDATE_MASK]
        requests = first + np.repeat(np.arange(batch.requests), entries // batch.requests)
        valid = np.ones((entries, queries), bool)
        if place.kind in ("interaction", "gate"):
            valid &= candidates.reshape(-1, 1)
        elif place.kind == "target_attention" and queries == candidates.shape[1]:
            valid &= candidates
        if place.kind in ("encoder", "interaction") and queries == keys.shape[1]:
            valid &= keys
        weights = _normalised(arrays["weights"], keys) if "weights" in arrays else None
        relations: dict[str, Bools] = {}
        present = events[place.history].numpy() if place.history else None
        if weights is not None and present is not None and keys.shape == present.shape:
            order = np.argsort(~present, axis=1, kind="stable")
            if not isinstance(self._model.tower.histories[place.history], EncodedHistory):
                weights = np.take_along_axis(weights, order[:, None, None], axis=3)
                keys = np.take_along_axis(keys, order, axis=1)
                value = np.take_along_axis(
                    np.broadcast_to(value, (entries, *value.shape[1:])),
                    order[..., None, None],
                    axis=1,
                )
            relations = self._relations(batch, place, keys, order, queries)
        return AttentionRecord(place, weights, output, value, valid, keys, requests, relations)

    def _relations(
        self, batch: Batch, place: AttentionPlace, keys: Bools, order: NDArray[Any], queries: int
    ) -> dict[str, Bools]:
        """Which queries and events share an id, by the sequence."""
        schema, relations = self._model.schema, {}
        for sequence in schema.histories[place.history]:
            if is_age(sequence):
                continue
            ids = np.take_along_axis(batch.inputs[sequence.name], order, axis=1)
            if sequence.name in self._frequencies:
                counts = np.where(keys, self._frequencies[sequence.name][ids], np.inf)
                rare = keys & (counts == counts.min(axis=1, keepdims=True))
                relations[RAREST] = np.broadcast_to(
                    rare[:, None], (len(ids), queries, ids.shape[1])
                )
            known = keys & (ids >= RESERVED_IDS)
            owner = sequence.shares or sequence.name
            if place.kind == "encoder" and queries == ids.shape[1]:
                same = (ids[:, :, None] == ids[:, None]) & known[:, None]
                relations[f"same {owner}"] = same & ~np.eye(queries, dtype=bool)
            elif owner in batch.inputs and queries == batch.blocks[CANDIDATE_MASK].shape[1]:
                of_query = batch.inputs[owner]
                if of_query.ndim == 2 and schema[owner].side == "candidate":
                    relations[f"same {owner}"] = (of_query[:, :, None] == ids[:, None]) & known[
                        :, None
                    ]
        return relations


def _tensors(call: HeadsCall) -> dict[str, tf.Tensor]:
    """The tensors of a call, in float32, without a context's keys."""
    keys = call.masks.key
    entries, queries = tf.shape(call.output)[0], tf.shape(call.output)[1]
    length, context = tf.shape(call.value)[1], call.masks.context_size
    is_key = tf.ones((entries, length), tf.bool) if keys is None else tf.cast(keys, tf.bool)
    tensors = {
        "output": tf.cast(call.output, tf.float32),
        "value": tf.cast(call.value, tf.float32)[:, context:],
        "keys": tf.broadcast_to(is_key, (entries, length))[:, context:],
    }
    if call.weights is not None:
        weights = tf.cast(dense_weights(call.weights, queries, length), tf.float32)
        shape = (entries, tf.shape(weights)[1], queries, length)
        tensors["weights"] = tf.broadcast_to(weights, shape)[..., context:]
    return tensors


def _normalised(weights: Floats, keys: Bools) -> Floats:
    sizes = np.abs(weights) * keys[:, None, None]
    total = sizes.sum(axis=-1, keepdims=True)
    return np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)


def _frequencies(schema: Schema, chunk: Chunk) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Counts each id among these rows' events, of the first sequence of each history."""
    inputs = chunk.layout.inputs({**chunk.blocks, CANDIDATE_MASK: np.empty(0)})
    for sequences in schema.histories.values():
        ids = next((inputs[sequence.name] for sequence in sequences if not is_age(sequence)), None)
        if ids is not None:
            name = next(sequence.name for sequence in sequences if not is_age(sequence))
            yield name, np.bincount(ids[: len(chunk.starts) - 1].ravel())
