"""`SequenceModel`: an embedding, an encoder and a score of each item of a catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.attention.layers.two_stream import TwoStreamEncoder
from recsys_attn.embedding_tables import width_of
from recsys_attn.embeddings import FeatureEmbedding, example_inputs
from recsys_attn.models.encoders import is_causal
from recsys_attn.models.event_encoder import EventEncoder
from recsys_attn.models.item_scores import ItemScores
from recsys_attn.schema import PADDING_ID, RESERVED_IDS, Schema, Sequence, is_age
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Config, Shape, Tensor


class Events(NamedTuple):
    """The embedded events of a batch.

    Attributes:
        vectors: `(B, S, K)`.
        present: `(B, S)`, False for padding, which stands behind the events.
        times: `(B, S)`, seconds, 0 at the request and negative before it; None without ages.
    """

    vectors: Tensor
    present: Tensor
    times: Tensor | None


@keras.saving.register_keras_serializable(package="recsys_attn")
class SequenceModel(keras.Model):
    """Encodes histories and scores every item as the next one.

    The schema has one history and no tasks. Its first sequence of ids has the items; others, such
    as actions, are parts of an event's vector; a sequence with the transform `"age"` has times.

    Args:
        embedding: A `FeatureEmbedding`.
        encoder: An `EventEncoder`.
        scores: An `ItemScores` with the size and width of the items.
        appends: Where the next item is predicted: `"mask"`, at a learned vector behind the events,
            as in BERT4Rec; `"query"`, there by a stream of queries, as in XLNet; both for an
            encoder that is not causal. None: at the last event.
        action: Name of a sequence whose vectors are events of their own, each behind its item, as
            in the generative form of HSTU; the sequence is twice as long. None for no such one.

    Call arguments:
        inputs: Dict of ids `(B, S)` by feature name, oldest first and padded behind.

    Returns:
        States `(B, S, K)`, zeros for padding. `next_states` has the one that predicts, and
        `scores(states)` the scores of all items.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import sasrec
    >>> from recsys_attn.schema import Schema, Sequence
    >>> model = sasrec(Schema((Sequence("item", size=9, max_length=5),), ()), width=4, num_heads=1)
    >>> inputs = {"item": np.array([[2, 3, 4, 0, 0], [5, 0, 0, 0, 0]])}
    >>> tuple(model.scores(model.next_states(inputs)).shape)
    (2, 9)
    """

    def __init__(
        self,
        embedding: Any,
        encoder: Any,
        scores: Any,
        appends: str | None = None,
        action: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.embedding: FeatureEmbedding = deserialize(embedding)
        self.encoder: EventEncoder = deserialize(encoder)
        self.output_layer: ItemScores = deserialize(scores)
        self.history, self.sequences = only_history(self.schema)
        self.item = item_sequence(self.schema).name
        _check_action(self.schema, self.embedding.width, action)
        if appends not in (None, "mask", "query"):
            raise ValueError(
                f"`appends` must be 'mask', 'query' or None. Received: appends={appends!r}"
            )
        self.appends, self.action = appends, action
        self.streams = None
        if appends == "query":
            self.streams = TwoStreamEncoder(self.encoder.encoder)
        self.mask_vector = None
        if appends == "mask":
            self.mask_vector = self.add_weight(
                shape=(self.width,),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name="mask_vector",
            )
        self.scores(self.next_states(example_inputs(self.schema, batch=2)))
        self.build()

    @property
    def schema(self) -> Schema:
        """The fitted schema of the model."""
        return self.embedding.schema

    @property
    def max_length(self) -> int:
        """The most events of a history that the model sees."""
        return self.sequences[0].max_length

    @property
    def is_causal(self) -> bool:
        """Whether no state depends on later events, statistics of a batch in training aside."""
        return is_causal(self.encoder.encoder)

    @property
    def size(self) -> int:
        """The number of rows of the table of items, with the reserved ids."""
        return self.output_layer.size

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the constructor builds the parts by a call

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        return self.encode(self.events(inputs), training=training)

    @property
    def per_event(self) -> int:
        """The number of states of an event: 2 with an action behind each item."""
        return 1 if self.action is None else 2

    def events(self, inputs: Mapping[str, Tensor]) -> Events:
        """Returns the embedded events; with `action` two for each, `(B, 2 S, K)`."""
        history = self.embedding(inputs)["histories"][self.history]
        vectors, present, times = history["events"], history["event_mask"], history.get("times")
        if self.action is None:
            return Events(vectors, present, times)
        vectors = ops.reshape(vectors, (ops.shape(vectors)[0], -1, vectors.shape[-1] // 2))
        twice = None if times is None else ops.repeat(times, 2, axis=1)
        return Events(vectors, ops.repeat(present, 2, axis=1), twice)

    def encode(self, events: Events, training: bool | None = None) -> Tensor:
        """Returns the states `(B, S, K)`."""
        times = events.times if self.encoder.uses_times else None
        return self.encoder(events.vectors, events.present, times, training=training)

    def query_states(self, events: Events, ranks: Tensor, training: bool | None = None) -> Tensor:
        """Returns the states `(B, S, K)` of the stream of queries.

        Args:
            events: The events.
            ranks: `(B, S)`, the rank of each event in the order of the prediction; a query sees the
                events of lower ranks, and all of them those of the lowest rank.
            training: Whether dropout is on.
        """
        if self.streams is None:
            raise ValueError(
                "A stream of queries needs appends='query', as `xlnet` has it. "
                f"Received: appends={self.appends!r}"
            )
        times = events.times if self.encoder.uses_times else None
        entered = self.encoder.enter(events.vectors, events.present, times, training)
        positions = {"positions": times} if self.encoder.by_time else {}
        streams = self.streams(
            entered, ranks, present=events.present, training=training, **positions
        )
        return streams[1]

    def next_states(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """Returns the state `(B, K)` that predicts what follows the events.

        Without events it is zeros for a causal encoder.
        """
        events = self.events(inputs)
        count = ops.sum(ops.cast(events.present, "int32"), axis=1)
        if self.appends is None:
            states, place = self.encode(events, training), ops.maximum(count - 1, 0)
        else:
            longer, place = self.with_one_more(events, count), count
            if self.appends == "mask":
                states = self.encode(longer, training)
            else:
                places = ops.arange(ops.shape(longer.present)[1])
                ranks = ops.cast(places[None] >= count[:, None], "int32")
                states = self.query_states(longer, ranks, training)
        return ops.take_along_axis(states, place[:, None, None], axis=1)[:, 0]

    def with_one_more(self, events: Events, count: Tensor) -> Events:
        """Returns the events with one more behind the last of each row, masked where that is."""
        behind = ops.arange(ops.shape(events.present)[1] + 1)[None] == count[:, None]
        vectors = ops.pad(events.vectors, ((0, 0), (0, 1), (0, 0)))
        present = ops.pad(events.present, ((0, 0), (0, 1)))
        vectors = vectors if self.mask_vector is None else self.masked(vectors, behind)
        times = None if events.times is None else ops.pad(events.times, ((0, 0), (0, 1)))
        return Events(vectors, ops.logical_or(present, behind), times)

    def masked(self, vectors: Tensor, where: Tensor) -> Tensor:
        """Returns vectors `(B, S, K)` with the learned vector where `where` `(B, S)` is True."""
        if self.mask_vector is None:
            raise ValueError(
                "Masked events need appends='mask', as `bert4rec` has it. "
                f"Received: appends={self.appends!r}"
            )
        return ops.where(where[..., None], ops.cast(self.mask_vector, vectors.dtype), vectors)

    def queries(self, states: Tensor) -> Tensor:
        """Returns the vectors `(..., E)` whose products with those of items are scores."""
        return self.output_layer(states)

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns vectors `(..., E)` and offsets of items by their ids."""
        return self.output_layer.vectors(self._vectors, ids)

    def table(self) -> tuple[Tensor, Tensor | None]:
        """Returns vectors `(size, E)` and offsets of all items."""
        return self.output_layer.vectors(self._vectors)

    def scores(self, states: Tensor) -> Tensor:
        """Returns the scores `(..., size)` of all ids; those of the reserved ones mean nothing."""
        queries = self.queries(states)
        vectors, offsets = self.table()
        scores = ops.matmul(queries, ops.transpose(vectors))
        return scores if offsets is None else scores + offsets

    @property
    def width(self) -> int:
        """The width K of an event."""
        sequences = [s for s in self.sequences if not is_age(s) and s.name != self.action]
        return sum(width_of(self.schema, s.name, self.embedding.width) for s in sequences)

    def _vectors(self, ids: Tensor | None) -> Tensor:
        return self.embedding.vectors(self.item, ids)

    def get_config(self) -> Config:
        return {
            "name": self.name,
            "embedding": serialize(self.embedding),
            "encoder": serialize(self.encoder),
            "scores": serialize(self.output_layer),
            "appends": self.appends,
            "action": self.action,
        }


def only_history(schema: Schema) -> tuple[str, tuple[Sequence, ...]]:
    """Returns the name and the sequences of a schema's only history.

    Raises:
        ValueError: The schema has other features, or another number of histories.
    """
    others = [f.name for f in schema.features if not isinstance(f, Sequence)]
    if len(schema.histories) != 1 or others or schema.tasks:
        raise ValueError(
            "A sequence model needs a schema of one history, without other features and tasks. "
            f"Received: histories={list(schema.histories)}, other features={others}, "
            f"tasks={[task.name for task in schema.tasks]}"
        )
    return next(iter(schema.histories.items()))


def _check_action(schema: Schema, width: int, action: str | None) -> None:
    """Raises unless `action` is the sequence behind the items, and as wide."""
    if action is None:
        return
    names = [s.name for s in only_history(schema)[1] if not is_age(s)]
    widths = [width_of(schema, name, width) for name in names]
    if names[1:] != [action] or len(set(widths)) > 1:
        raise ValueError(
            "`action` must be the only sequence beside the items, and as wide as they are. "
            f"Received: action={action!r}, sequences={dict(zip(names, widths, strict=True))}"
        )


def item_sequence(schema: Schema) -> Sequence:
    """Returns the sequence of the items: the first one of ids."""
    return next(s for s in only_history(schema)[1] if not is_age(s))


def known_items(ids: Tensor) -> Tensor:
    """Returns where ids are those of items, neither padding nor unknown."""
    return ids >= RESERVED_IDS


def shifted(inputs: Mapping[str, Any], item: str) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the events that have a next one, and the item of that one.

    Args:
        inputs: Ids `(B, S + 1)` by feature, padded behind.
        item: Name of the sequence of items.

    Returns:
        Ids `(B, S)` by feature, and the next items `(B, S)`, 0 where there is none.
    """
    following = ops.cast(inputs[item], "int32")[:, 1:]
    has_next = ops.not_equal(following, PADDING_ID)
    events = {name: ops.where(has_next, x[:, :-1], PADDING_ID) for name, x in inputs.items()}
    return events, following
