"""Embeddings of all features of a schema: one table for each width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.backend.sparse_gradients import rows_at
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.embedding_tables import Table, cut, plan_tables, projected, width_of
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_mean
from recsys_attn.number_encodings.fields import NumberFields
from recsys_attn.schema import (
    CANDIDATE_MASK,
    PADDING_ID,
    RESERVED_IDS,
    UNKNOWN_ID,
    Numeric,
    Schema,
    Sequence,
    Side,
    is_age,
    is_listed,
)
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class FeatureEmbedding(Layer):
    """Turns ids and numbers into field vectors and histories.

    A categorical feature becomes its row, a bag of ids the mean of its rows, a number what its
    encoding makes of it, a missing value zeros. A past event is the concatenation of its
    aligned sequences; its query is the concatenation of the features that share their tables, so
    both are vectors of one space. For a sequence without a shared table the query has zeros.

    A feature with a `table_width` has rows of that width e, and a matrix that projects them to its
    width E: `row P`, with `V e + e E` numbers in place of `V E` (ALBERT, Lan et al., 2020,
    arXiv 1909.11942, section 3.1). `P` starts with the deviation `e^(-1/2)`, so that the products
    are as large as the rows of a plain table.

    Args:
        schema: A fitted schema (each categorical feature has its `size`), or its `to_dict()`.
        width: Embedding width of features without a `width`; 8 to 64 are usual.
        embeddings_initializer: Initializer of tables and vectors. Defaults to a normal one with
            deviation 0.01, since the initial rows of rare values are noise. The rows of missing and
            of unknown values start at zero.
        embeddings_regularizer: Regularizer of the tables, and not of projections. Defaults to none,
            since it reads the whole table in each step; prefer `l2` of the optimizer.
        named: Names of context features, no sequences, also returned by name. Defaults to none.

    Call arguments:
        inputs: Dict by feature name. Ids: context `(B,)`, candidate `(B, T)`, bags with one more
            axis, sequences `(B, S)`; 0 is missing or padding, an id outside the table is unknown.
            Numbers: the same shapes, NaN is missing. Optionally `"candidate_mask"` `(B, T)`, False
            at padded candidates.

    Returns:
        A dict: `"context"` and `"candidate"`, lists of field blocks `(B, F, E)` and
        `(B, T, F, E)`, one per table; `"context_present"` and `"candidate_present"`, the same
        without the last axis, False where a value is missing; `"histories"`, by name a dict of
        `query` `(B, T, K)`, `events` `(B, S, K)`, `event_mask` `(B, S)` and `query_mask`
        `(B, T)`, where T is 1 if no candidate feature is in the query, and `query_mask` is None
        without a candidate mask; with a sequence of ages also `times` `(B, S)`, whole seconds, 0
        at the request and negative before it; `"candidate_mask"` where given; and with `named`
        `"named"`, by name a dict of `vector` `(B, E)` and `present` `(B,)`.

    Raises:
        ValueError: The schema is not fitted, `width` is not positive, or a call lacks a feature.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.embeddings import FeatureEmbedding
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7), Categorical("user", "context", size=5)),
    ...                 (Task("click"),))
    >>> inputs = {"item": np.array([[2, 3, 4]]), "user": np.array([2])}
    >>> fields = FeatureEmbedding(schema, width=4)(inputs)
    >>> [tuple(block.shape) for block in fields["candidate"] + fields["context"]]
    [(1, 3, 1, 4), (1, 1, 4)]
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, Any],
        width: int = 16,
        embeddings_initializer: Any = None,
        embeddings_regularizer: Any = None,
        named: Iterable[str] = (),
        **kwargs: Any,
    ) -> None:
        # Otherwise Keras would round numbers to the compute dtype.
        super().__init__(autocast=False, **kwargs)
        require_positive("width", width)
        self.schema = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
        self.width = width
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        self._tables = plan_tables(self.schema, width)
        self._numbers = {
            (side, table.width): NumberFields(
                [f for name in names if isinstance(f := self.schema[name], Numeric)]
            )
            for table in self._tables
            for side, names in table.numerics.items()
            if names
        }
        self.named = tuple(named)
        known = [name for table in self._tables for name in table.fields("context")]
        for name in self.named:
            if name not in known:
                raise ValueError(
                    "`named` must be context features, no sequences. " + unknown_name(name, known)
                )

    def build(self, input_shape: Shape | None = None) -> None:
        self._table_weights = {}
        self._projections = {}
        for table in self._tables:
            if table.rows:
                self._table_weights[table.name] = self.add_table(table)
            if table.table_width:
                self._projections[table.name] = self.add_weight(
                    shape=(len(table.parts), table.table_width, table.width),
                    initializer=keras.initializers.RandomNormal(stddev=table.table_width**-0.5),
                    autocast=False,
                    name=table.projection,
                )
        for (side, width), numbers in self._numbers.items():
            add = partial(self.add_weight, autocast=False)
            numbers.build(side, width, self._initializer, add)
        self.built = True

    def add_table(self, table: Table) -> Any:
        """Makes the weights of a table; with `rows`, a subclass may store them in another way."""
        return self.add_weight(
            shape=(table.rows, table.table_width or table.width),
            initializer=self._table_initializer(table),
            regularizer=self.embeddings_regularizer,
            autocast=False,  # casts the looked-up rows, not the whole table
            name=table.name,
        )

    def rows(self, table: Any, ids: Tensor) -> Tensor:
        """Reads rows of the weights of a table."""
        return rows_at(table, ids)

    def _initializer(self) -> Any:
        """Returns a new initializer: one object would give two weights the same values."""
        if self.embeddings_initializer is None:
            return keras.initializers.RandomNormal(stddev=0.01)
        return self.embeddings_initializer.clone()

    def _table_initializer(self, table: Table) -> Any:
        known = np.ones((table.rows, 1), "float32")
        for offset in table.offsets.values():
            known[offset : offset + RESERVED_IDS] = 0
        draw = self._initializer()
        return lambda shape, dtype=None: draw(shape, dtype) * ops.cast(known, dtype)

    def call(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        inputs = self._checked(inputs)
        result: dict[str, Any] = {
            f"{side}{suffix}": []
            for side in ("context", "candidate")
            for suffix in ("", "_present")
        }
        named: dict[str, dict[str, Tensor]] = {}
        vectors: dict[str, Tensor] = {}  # by feature name, for the queries and events of histories
        for table in self._tables:
            for side in ("context", "candidate"):
                block, present = self._embed_side(table, side, inputs, vectors)
                if block is None:
                    continue
                result[side].append(block)
                result[f"{side}_present"].append(present)
                if side == "context":
                    named |= {
                        name: {"vector": block[:, i], "present": present[:, i]}
                        for i, name in enumerate(table.fields(side))
                        if name in self.named
                    }
        result["histories"] = {
            name: self._history(sequences, inputs, vectors)
            for name, sequences in self.schema.histories.items()
        }
        if named:
            result["named"] = named
        if CANDIDATE_MASK in inputs:
            result[CANDIDATE_MASK] = ops.cast(inputs[CANDIDATE_MASK], "bool")
        return result

    def _checked(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the inputs; `(B, 0)` histories get one missing event, as encoders need one."""
        missing = [feature.name for feature in self.schema.features if feature.name not in inputs]
        if missing:
            raise ValueError(
                f"`inputs` must have every feature of the schema. Missing: {missing}. "
                f"Received: {sorted(inputs)}"
            )
        tensors = dict(inputs)
        for feature in self.schema.features:
            if isinstance(feature, Sequence) and tensors[feature.name].shape[1] == 0:
                tensors[feature.name] = ops.pad(tensors[feature.name], [[0, 0], [0, 1]])
        return tensors

    def _embed_side(
        self, table: Table, side: Side, inputs: Mapping[str, Tensor], vectors: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Looks up all ids of one side at once, and splits them into fields, bags and sequences."""
        singles, bags, numerics = table.singles[side], table.bags[side], table.numerics[side]
        blocks, presents = [], []
        listed = bags + (table.sequences if side == "context" else ())
        if singles or listed:
            lookups = self._lookup(table, singles, listed, inputs)
            if singles:
                values, mask = lookups.pop(0)
                blocks.append(values)
                presents.append(mask)
                vectors.update({name: values[..., i, :] for i, name in enumerate(singles)})
            for name, (values, mask) in zip(listed, lookups, strict=True):
                if name in bags:
                    values = masked_mean(values, mask)
                    blocks.append(values)
                    presents.append(ops.any(mask, axis=-1, keepdims=True))
                    values = values[..., 0, :]
                vectors[name] = values
        if numerics:
            raw = [ops.cast(inputs[name], "float32") for name in numerics]
            values, present = self._numbers[side, table.width](ops.stack(raw, axis=-1))
            blocks.append(ops.cast(values, self.compute_dtype))
            presents.append(present)
        if not blocks:
            return None, None
        return ops.concatenate(blocks, axis=-2), ops.concatenate(presents, axis=-1)

    def _lookup(
        self,
        table: Table,
        singles: tuple[str, ...],
        listed: tuple[str, ...],
        inputs: Mapping[str, Tensor],
    ) -> list[tuple[Tensor, Tensor]]:
        """Returns rows and presence masks, of all single ids together and of each list."""
        parts = [ops.cast(inputs[name], "int32") for name in listed]
        offsets: list[Any] = [table.offsets[name] for name in listed]
        sizes: list[Any] = [table.sizes[name] for name in listed]
        if singles:
            parts.insert(0, ops.stack([ops.cast(inputs[n], "int32") for n in singles], axis=-1))
            for known, plan in ((offsets, table.offsets), (sizes, table.sizes)):
                known.insert(0, ops.convert_to_tensor([plan[name] for name in singles], "int32"))
        present = ops.not_equal(ops.concatenate(parts, axis=-1), PADDING_ID)
        ids = [
            # Fields share a table: an id beyond its field would read a row of the next field.
            offset + ops.where((part >= 0) & (part < size), part, UNKNOWN_ID)
            for part, offset, size in zip(parts, offsets, sizes, strict=True)
        ]
        rows = self.rows(self._table_weights[table.name], ops.concatenate(ids, axis=-1))
        rows = ops.cast(rows, self.compute_dtype)
        rows = rows * ops.cast(present, rows.dtype)[..., None]
        lengths = [ops.shape(part)[-1] for part in parts]
        vectors = cut(rows, lengths, -2)
        if table.table_width:
            every = ops.cast(self._projections[table.name], rows.dtype)
            names = [singles] * bool(singles) + [(name,) for name in listed]
            vectors = [
                projected(vector, [every[place] for place in table.places(of_vector)])
                for vector, of_vector in zip(vectors, names, strict=True)
            ]
        return list(zip(vectors, cut(present, lengths, -1), strict=True))

    def _history(
        self,
        sequences: tuple[Sequence, ...],
        inputs: Mapping[str, Tensor],
        vectors: dict[str, Tensor],
    ) -> dict[str, Any]:
        ids = [ops.cast(inputs[sequence.name], "int32") for sequence in sequences]
        event_mask = ops.not_equal(ids[0], PADDING_ID)
        for other in ids[1:]:
            event_mask = ops.logical_or(event_mask, ops.not_equal(other, PADDING_ID))
        query_mask = inputs.get(CANDIDATE_MASK)
        if query_mask is not None:
            query_mask = ops.cast(query_mask, "bool")
            if not any(self._side_of_partner(s.name) == "candidate" for s in sequences):
                query_mask = ops.any(query_mask, axis=1, keepdims=True)  # one query per request
        embedded = tuple(sequence for sequence in sequences if not is_age(sequence))
        result = {
            "query": self._query(embedded, vectors),
            "query_mask": query_mask,
            "events": ops.concatenate([vectors[s.name] for s in embedded], axis=-1),
            "event_mask": event_mask,
        }
        for sequence, part in zip(sequences, ids, strict=True):
            if is_age(sequence):
                result["times"] = -ops.maximum(part - RESERVED_IDS, 0)
        return result

    def _query(self, sequences: tuple[Sequence, ...], vectors: dict[str, Tensor]) -> Tensor:
        """Concatenates the query features to `(B, T, K)`; `T` is 1 if all are context."""
        partners = {s.name: self._partner(s, vectors) for s in sequences if s.shares is not None}
        like = next(
            (v for s, v in partners.items() if self._side_of_partner(s) == "candidate"),
            next(iter(partners.values()), None),
        )
        parts = []
        for sequence in sequences:
            if like is None:
                events = vectors[sequence.name]
                parts.append(ops.zeros_like(ops.sum(events, axis=1, keepdims=True)))
            elif sequence.name in partners:
                parts.append(partners[sequence.name] + ops.zeros_like(like[..., :1]))
            else:
                width = width_of(self.schema, sequence.name, self.width)
                parts.append(ops.repeat(ops.zeros_like(like[..., :1]), width, axis=-1))
        return ops.concatenate(parts, axis=-1)

    def _side_of_partner(self, sequence: str) -> Side:
        return self.schema[self.schema.table_owner(sequence)].side

    def _partner(self, sequence: Sequence, vectors: dict[str, Tensor]) -> Tensor:
        vector = vectors[self.schema.table_owner(sequence.name)]
        return vector if self._side_of_partner(sequence.name) == "candidate" else vector[:, None]

    def vectors(self, name: str, ids: Tensor | None = None) -> Tensor:
        """Returns the vectors of ids of a feature, or of all its rows in order.

        Args:
            name: A feature with a table, such as the items of a history.
            ids: Integers below the size of its table. Their gradient is sparse on TensorFlow. None
                for all rows, of which the gradient is dense.

        Returns:
            The shape of the ids and E, or (size, E).
        """
        table = next(table for table in self._tables if name in table.offsets)
        weights, offset = self._table_weights[table.name], table.offsets[name]
        if ids is not None:
            rows = self.rows(weights, ids + offset)
        elif table.sizes[name] == table.rows:
            rows = ops.convert_to_tensor(weights)
        else:
            rows = ops.convert_to_tensor(weights)[offset : offset + table.sizes[name]]
        if not table.table_width:
            return rows
        return ops.matmul(rows, self._projections[table.name][table.places([name])[0]])

    def take_rows(self, other: FeatureEmbedding) -> None:
        """Copies the rows and vectors of its features from an embedding that has them too."""
        theirs = {table.name: table for table in other._tables}
        for table in self._tables:
            their = theirs[table.name]
            if table.rows:
                matrix = ops.convert_to_numpy(other._table_weights[table.name])
                begins = [(their.offsets[name], table.sizes[name]) for name in table.parts]
                rows = [matrix[begin : begin + size] for begin, size in begins]
                self._table_weights[table.name].assign(np.concatenate(rows))
            if table.table_width:
                every = ops.convert_to_numpy(other._projections[table.name])
                self._projections[table.name].assign(every[their.places(table.parts)])
        for key, numbers in self._numbers.items():
            numbers.take(other._numbers[key])

    def get_config(self) -> Config:
        return {**super().get_config(), "schema": self.schema.to_dict()}


def example_inputs(schema: Schema, batch: int = 1, candidates: int = 1) -> dict[str, np.ndarray]:
    """Returns inputs with only missing values, to build a model with."""
    inputs = {}
    for feature in schema.features:
        shape: tuple[int, ...] = (batch,)
        if feature.side == "candidate":
            shape += (candidates,)
        if is_listed(feature):
            shape += (feature.max_length,)
        dtype = "float32" if isinstance(feature, Numeric) else "int32"
        inputs[feature.name] = np.zeros(shape, dtype)
    return inputs
