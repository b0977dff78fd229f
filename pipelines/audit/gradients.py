"""Relevance of fields and events by gradients at their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.units import FIELDS, AllUnits, history_field, of_events
from recsys_attn.embedding_tables import plan_tables, width_of
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models import RankingModel
from recsys_attn.schema import Side, is_age

Floats = NDArray[np.float64]
Place = tuple[str | int, ...]  # of a tensor in the embedding's output
Parts = dict[Place, tf.Tensor]
STEPS = 32


class Gradients:
    """Relevance of units by gradients of a model's logits, for rows with one candidate each.

    Args:
        model: The trained model.
        context: Surrounds each call of the tower. Defaults to nothing.
    """

    def __init__(
        self, model: RankingModel, context: Callable[[RankingModel], Any] = nullcontext
    ) -> None:
        self._model, self._context = model, context
        self._compiled: Callable[..., Any] | None = None

    def times_input(self, units: AllUnits) -> tuple[dict[str, Floats], Floats]:
        """Gradient times input: `sum_e x_e df/dx_e` over the components of a unit's embedding.

        The embedding of a missing value is zeros, so this is what the logit would lose with it if
        the model were linear. A field also counts where it is a part of the query of a history.

        Args:
            units: Fields and events of the rows.

        Returns:
            By the kind of units, arrays (tasks, rows, U); and the sums over all of a row's
            embeddings, (tasks, rows).

        Source: Shrikumar et al., "Not Just a Black Box", 2016, arXiv 1605.01713.
        """
        return self._on_path(units, np.ones(1), np.ones(1))

    def integrated(self, units: AllUnits, steps: int = STEPS) -> tuple[dict[str, Floats], Floats]:
        """Integrated gradients: `sum_e x_e int_0^1 df(a x)/dx_e da`, from zeros to the embeddings.

        All relevances of a row sum to `f(x) - f(0)`. The zeros are those of missing values; which
        values are missing stays the same on the way, since a mask has no half.

        Args:
            units: Fields and events of the rows.
            steps: Nodes of the integral (Gauss and Legendre); raise it if the remainder is large.

        Returns:
            By the kind of units, arrays (tasks, rows, U); and the remainder `f(x) - f(0)` minus
            the sum over all of a row's embeddings, (tasks, rows).

        Source: Sundararajan et al., "Axiomatic Attribution for Deep Networks", ICML 2017,
        arXiv 1703.01365.
        """
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        relevance, total = self._on_path(units, (nodes + 1) / 2, weights / 2)
        return relevance, self.change_from_zeros(units) - total

    def change_from_zeros(self, units: AllUnits) -> Floats:
        """`f(x) - f(0)` of the integral's ends: (tasks, rows)."""
        embedded = embedded_of(self._model, units)
        parts = _parts(embedded)
        ends = [_logits(self._model, embedded, _scaled(parts, end)).numpy() for end in (1.0, 0.0)]
        return (ends[0] - ends[1]).astype(np.float64)

    def _on_path(
        self, units: AllUnits, nodes: Floats, weights: Floats
    ) -> tuple[dict[str, Floats], Floats]:
        """The weighted mean of the gradients at multiples of the embeddings, times them."""
        embedded = embedded_of(self._model, units)
        parts = _parts(embedded)
        tasks = len(self._model.schema.tasks)
        if self._compiled is None:
            self._compiled = compiled(self._of_parts, embedded, list(parts.values()))
        sums = [[np.zeros(part.shape) for part in parts.values()] for _ in range(tasks)]
        for node, weight in zip(nodes, weights, strict=True):
            results = self._compiled(embedded, list(_scaled(parts, float(node)).values()))
            for of_task, gradients in zip(sums, results, strict=True):
                for total, gradient in zip(of_task, gradients, strict=True):
                    total += weight * gradient.numpy()
        arrays = {place: tf.cast(part, tf.float32).numpy() for place, part in parts.items()}
        products = [
            {place: arrays[place] * sum_of for place, sum_of in zip(arrays, of_task, strict=True)}
            for of_task in sums
        ]
        by_unit = [_by_unit(self._model.embedding, product, units) for product in products]
        totals = [sum(_by_row(one) for one in product.values()) for product in products]
        return {kind: np.stack([one[kind] for one in by_unit]) for kind in by_unit[0]}, np.stack(
            totals
        )

    def _of_parts(self, embedded: Any, vectors: list[tf.Tensor]) -> list[list[tf.Tensor]]:
        """The gradients of each task's logits by the parts of the embedding."""
        parts = dict(zip(_parts(embedded), vectors, strict=True))
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(vectors)
            with self._context(self._model):
                logits = tf.unstack(_logits(self._model, embedded, parts))
        zero = tf.UnconnectedGradients.ZERO
        return [
            [tf.cast(one, tf.float32) for one in tape.gradient(logit, vectors, None, zero)]
            for logit in logits
        ]


def _logits(model: RankingModel, embedded: Any, parts: Parts) -> tf.Tensor:
    """Logits (tasks, rows) from parts that replace those of the embedding."""
    logits = model.tower(_replaced(embedded, parts), training=False)
    return tf.stack([tf.cast(logits[t.name][:, 0], tf.float32) for t in model.schema.tasks])


def compiled(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """A function as one graph for any number of rows; single operations are several times slower.

    Args:
        function: Takes tensors, and None, in lists and dictionaries.
        arguments: Its arguments for some rows.
    """
    is_tensor = tf.nest.map_structure(lambda leaf: leaf is not None, arguments)
    specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in _tensors(arguments)]

    def of_tensors(*tensors: tf.Tensor) -> Any:
        rest = iter(tensors)
        back = tf.nest.map_structure(lambda one: next(rest) if one else None, is_tensor)
        return function(*back)

    graph = tf.function(of_tensors, input_signature=specs, autograph=False)
    return lambda *others: graph(*_tensors(others))


def _tensors(arguments: Any) -> list[tf.Tensor]:
    return [leaf for leaf in tf.nest.flatten(arguments) if leaf is not None]


def embedded_of(model: RankingModel, units: AllUnits) -> dict[str, Any]:
    """The output of a model's embedding for the rows."""
    inputs = {name: tf.convert_to_tensor(v) for name, v in units.fields.inputs.items()}
    return model.embedding(inputs)


def _parts(embedded: Mapping[str, Any]) -> Parts:
    """The vectors in the embedding's output."""
    parts: Parts = {}
    for side in ("context", "candidate"):
        parts |= {(side, i): block for i, block in enumerate(embedded[side])}
    for name, history in embedded["histories"].items():
        parts |= {("histories", name, part): history[part] for part in ("query", "events")}
    for name, value in embedded.get("named", {}).items():
        parts[("named", name, "vector")] = value["vector"]
    return parts


def _replaced(embedded: Any, parts: Parts, place: Place = ()) -> Any:
    if place in parts:
        return parts[place]
    if isinstance(embedded, dict):
        return {key: _replaced(value, parts, (*place, key)) for key, value in embedded.items()}
    if isinstance(embedded, list):
        return [_replaced(value, parts, (*place, i)) for i, value in enumerate(embedded)]
    return embedded


def _scaled(parts: Parts, factor: float) -> Parts:
    return {place: part * tf.cast(factor, part.dtype) for place, part in parts.items()}


def _by_row(product: Floats) -> Floats:
    return product.reshape(len(product), -1).sum(axis=1)


def _by_unit(
    embedding: FeatureEmbedding, products: Mapping[Place, Floats], units: AllUnits
) -> dict[str, Floats]:
    """Sums of the products of each unit: (rows, U) by kind."""
    rows = len(next(iter(products.values())))
    fields = {name: np.zeros(rows) for name in units.fields.names}
    sums: dict[str, Floats] = {}
    for place, product in products.items():
        for name, one in _by_field(embedding, place, product):
            fields[name] += _by_row(one)
        if place[-1] == "events":
            events = units.events[str(place[1])]
            by_event = events.by_event(product.sum(axis=-1))
            sums[of_events(str(place[1]))] = by_event
    return {FIELDS: np.stack(list(fields.values()), axis=1), **sums}


def _by_field(
    embedding: FeatureEmbedding, place: Place, product: Floats
) -> Iterator[tuple[str, Floats]]:
    """The products of each field in a part of the embedding's output."""
    schema, (group, name, *_) = embedding.schema, (*place, "")
    if group == "named":
        yield str(name), product
    elif place[-1] == "events":
        yield history_field(schema, str(name)), product
    elif place[-1] == "query":
        done = 0
        for sequence in schema.histories[str(name)]:
            if not is_age(sequence):
                width = width_of(schema, sequence.name, embedding.width)
                if sequence.shares is not None:
                    yield sequence.shares, product[..., done : done + width]
                done += width
    else:
        tables = plan_tables(schema, embedding.width)
        side: Side = "context" if group == "context" else "candidate"
        blocks = [fields for table in tables if (fields := table.fields(side))]
        for index, field in enumerate(blocks[int(name)]):
            yield field, product[..., index, :]
