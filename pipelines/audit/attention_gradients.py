"""Relevance by what passes through attention: Chefer's rule, and the heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.conserving import Visit
from pipelines.audit.gradients import compiled, embedded_of
from pipelines.audit.units import FIELDS, AllUnits, EventUnits, history_field, of_events
from recsys_attn.attention import HeadsCall
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import (
    AttentionPlace,
    interaction_fields,
    watch_attention,
)
from recsys_attn.models.encoded_history import EncodedHistory

Floats = NDArray[np.float64]


class PlaceGradients(NamedTuple):
    """The attention of one place on some rows with one candidate each.

    Attributes:
        place: The place in the model.
        weights: (rows, N, T, S); None for a mechanism that makes none, or not as one tensor.
        raising: For each task, the mean over heads of `(weights * df/dweights)^+`,
            (tasks, rows, T, S); None as for the weights.
        heads: For each task and head, the sum of `output * df/doutput` over its components,
            queries and, where a row has several entries, such as its sessions, over these:
            (tasks, rows, N).
        sizes: The sum of the absolute values of the same.
    """

    place: AttentionPlace
    weights: Any
    raising: Any
    heads: Floats
    sizes: Floats


class AttentionGradients:
    """Gradients of a model's logits by the weights and outputs of its heads.

    Args:
        model: The trained model.
        watch: `watch_attention`, or `conserving` for relevance in place of gradients.
    """

    def __init__(
        self,
        model: RankingModel,
        watch: Callable[[RankingModel, Visit], Any] = watch_attention,
    ) -> None:
        self._model, self._watch = model, watch
        self._places: list[AttentionPlace] = []
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, units: AllUnits) -> list[PlaceGradients]:
        """Returns the attention of each place, in the order of the calls."""
        embedded = embedded_of(self._model, units)
        if self._compiled is None:
            self._compiled = compiled(self._of_embedded, embedded)
        gradients = self._compiled(embedded)
        arrays: list[list[Any]] = [
            [None if tensor is None else tensor.numpy() for tensor in of_place]
            for of_place in gradients
        ]
        return [
            PlaceGradients(p, *of_place) for p, of_place in zip(self._places, arrays, strict=True)
        ]

    def _of_embedded(self, embedded: Any) -> list[tuple[tf.Tensor | None, ...]]:
        calls: list[HeadsCall] = []
        self._places.clear()

        def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
            self._places.append(place)
            calls.append(call)
            return call

        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x for x in tf.nest.flatten(embedded) if _is_float(x)])
            with self._watch(self._model, visit):
                logits = self._model.tower(embedded, training=False)
        seen = [call.weights if tf.is_tensor(call.weights) else call.output for call in calls]
        sources = [*(call.output for call in calls), *seen]
        # One backward pass for each task.
        gradients = [tape.gradient(logits[task.name], sources) for task in self._model.schema.tasks]
        by_source = [list(of_tasks) for of_tasks in zip(*gradients, strict=True)]
        pairs = zip(by_source[: len(calls)], by_source[len(calls) :], strict=True)
        rows = tf.shape(next(iter(logits.values())))[0]
        return [_attended(call, rows, *of_call) for call, of_call in zip(calls, pairs, strict=True)]


def entries_of_row(output: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The number of entries of attention for each row, side by side: 1, or that of its sessions."""
    return tf.maximum(tf.shape(output)[0] // rows, 1)


def _attended(
    call: HeadsCall, rows: tf.Tensor, by_output: list[Any], by_weights: list[Any]
) -> tuple[tf.Tensor | None, ...]:
    products = tf.stack(_products(call.output, by_output))
    sums = [
        tf.reduce_sum(products_of_kind, axis=(2, 4))
        for products_of_kind in (products, tf.abs(products))
    ]
    by_row = (len(by_output), -1, entries_of_row(call.output, rows), call.output.shape[2])
    heads = [
        tf.reduce_sum(tf.reshape(products_of_kind, by_row), axis=2) for products_of_kind in sums
    ]
    copied = all(gradient is None for gradient in by_weights)  # of what makes the output
    if copied or not tf.is_tensor(call.weights):
        return None, None, *heads
    products = _products(call.weights, by_weights)
    raising = tf.stack([tf.reduce_mean(tf.nn.relu(product), axis=1) for product in products])
    return _float(call.weights), raising, *heads


def _products(x: tf.Tensor, gradients: list[Any]) -> list[tf.Tensor]:
    return [_float(tf.zeros_like(x) if g is None else x * g) for g in gradients]


def chefer(
    model: RankingModel, units: AllUnits, attended: list[PlaceGradients]
) -> dict[str, Floats]:
    """Relevance by Chefer's rule: `R <- R + E_heads[(A * df/dA)^+] R`, from `R = 1`.

    Of events, R begins in the encoder and ends with the row of the candidate in target attention;
    of fields, R passes the interacting layers, and what their outputs have of each field is summed;
    a pair of fields has its own in equal halves.
    The gradient tells where a weight matters, so that a large one that changes nothing has no
    relevance. It sees only what passes through attention: an MLP beside it has none.

    Args:
        model: The trained model.
        units: Fields and events of the rows.
        attended: The result of `AttentionGradients`.

    Returns:
        By the kind of units, arrays (tasks, rows, U), for kinds whose attention makes weights.

    Source: Chefer et al., "Generic Attention-model Explainability for Interpreting Bi-Modal and
    Encoder-Decoder Transformers", ICCV 2021, arXiv 2103.15679.
    """
    relevance = {}
    for history, events in units.events.items():
        target, encoder = (_at(attended, kind, history) for kind in ("target_attention", "encoder"))
        if len(target) == 1:
            passed = _through(target[0], encoder, events.inputs[events.columns[0]].shape[1])
            if passed is not None:
                relevance[of_events(history)] = _by_event(model, events, history, passed)
    layers = [one.raising for one in _at(attended, "interaction")]
    if layers and all(layer is not None for layer in layers):
        relevance[FIELDS] = _by_field(model, units, _through_fields(model, layers))
    return relevance


def _through_fields(model: RankingModel, layers: list[Floats]) -> Floats:
    """The sum of the rows of all `1 + A` but for the 1, or of pairs of fields, (tasks, rows, F)."""
    count = len(interaction_fields(model))
    if layers[0].shape[-2] != count:
        return _from_pairs(layers[0], count)[:, :, 0]
    passed = np.ones((*layers[0].shape[:2], 1, count))
    for layer in reversed(layers):
        passed = passed + passed @ layer
    return passed[:, :, 0] - 1


def _through(target: PlaceGradients, encoder: list[PlaceGradients], length: int) -> Floats | None:
    """The candidate's row of target attention times all `1 + A` of an encoder, (tasks, rows, S).

    Tokens of a context stand in front of the events, as do its keys, which nothing passes. None
    where a place has no weights of single events.
    """
    if any(one.raising is None for one in (target, *encoder)):
        return None
    passed = target.raising[:, :, 0]
    if passed.shape[-1] != length:
        return None
    for one in reversed(encoder):
        queries, keys = one.raising.shape[-2:]
        if not passed.shape[-1] <= queries <= keys:
            return None
        passed = np.pad(passed, ((0, 0), (0, 0), (queries - passed.shape[-1], 0)))
        received = np.einsum("trs,trsk->trk", passed, one.raising)
        passed = passed + received[..., keys - queries :]
    return passed[..., passed.shape[-1] - length :]


def field_attention(
    model: RankingModel, units: AllUnits, attended: list[PlaceGradients]
) -> Floats | None:
    """The mean weight of each field over layers, heads and queries, (rows, U); None without any."""
    layers = [one.weights for one in _at(attended, "interaction")]
    if not layers or any(layer is None for layer in layers):
        return None
    count = len(interaction_fields(model))
    layers = [_from_pairs(layer, count).mean(axis=(1, 2)) for layer in layers]
    return _by_field(model, units, np.mean(layers, axis=0))


def _from_pairs(weights: Floats, count: int) -> Floats:
    """Weights of fields, (..., T, F): half of that of each of its pairs, or its own."""
    if weights.shape[-2] == count:
        return weights
    places = np.stack(np.triu_indices(count, k=1))
    return weights @ (places[..., None] == np.arange(count)).mean(axis=0)


def _at(attended: list[PlaceGradients], kind: str, history: str = "") -> list[PlaceGradients]:
    return [one for one in attended if one.place[:2] == (kind, history)]


def _by_event(model: RankingModel, events: EventUnits, history: str, by_place: Floats) -> Floats:
    """Relevance by event, the last one first, from that by the places of keys."""
    places = events.places
    if isinstance(model.tower.histories[history], EncodedHistory):  # moves them to the front
        count = events.there.sum(axis=1, keepdims=True)
        places = np.maximum(count - 1 - np.arange(places.shape[1]), 0)
    return np.take_along_axis(by_place, places[None], axis=2)


def _by_field(model: RankingModel, units: AllUnits, by_place: Floats) -> Floats:
    """Relevance by feature and history, (..., U), from that by the fields of attention."""
    names, schema = units.fields.names, model.schema
    sums = np.zeros((*by_place.shape[:-1], len(names)))
    for index, field in enumerate(interaction_fields(model)):
        owner = field if field in names else history_field(schema, field.rpartition(".")[0])
        sums[..., names.index(owner)] += by_place[..., index]
    return sums


def _is_float(x: Any) -> bool:
    return tf.is_tensor(x) and x.dtype.is_floating


def _float(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32)
