"""`Tower`: histories, interaction of fields, and task heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.watching import visiting
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.embeddings import FeatureEmbedding, example_inputs
from recsys_attn.field_factors import recorded_factors
from recsys_attn.layer import Layer, layers_in
from recsys_attn.models.encoded_history import Encoded, EncodedHistory
from recsys_attn.models.field_gate import field_names
from recsys_attn.models.field_weights import FieldWeights, mean_factors
from recsys_attn.multitask.transfer import AdaptiveTransfer
from recsys_attn.schema import CANDIDATE_MASK, Schema, is_age
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Tower(Layer):
    """The dense part of a ranking model, made of three exchangeable parts.

    The context is broadcast to the candidates only here, after everything that is computed once per
    request.

    Args:
        histories: By the history's name, a layer `(query (B, T, K), events (B, S, K),
            event_mask (B, S), query_mask) -> (B, T, K)`; one with the attribute `uses_times` also
            takes `times (B, S)`, seconds, and one with a `context` the vectors of its features.
        interaction: A layer `(blocks, present, row_mask) -> (B, T, D)`, where `blocks` is a list
            of fields `(B, T, F, E)`, one per width, and `present` a list of `(B, T, F)`.
        head: A layer `(vector (B, T, D), row_mask) -> {task: logits (B, T)}`.
        field_gate: A `FieldGate` between the fields and the interaction. Defaults to none.

    Call arguments:
        embedded: The output of `FeatureEmbedding`.
        explain: Whether to return the weights of events, fields and experts too: of histories with
            the attribute `returns_weights` and the argument `return_weights`, of an interaction
            whose mechanisms of attention make weights or that scales whole fields, and of a head
            with `returns_gates` and `return_gates`.

    Returns:
        Dict of logits `(B, T)` by task, and with `explain` also a dict by the names of
        `explanations`: `attention/<history>` `(B, T, S)`, the mean over heads,
        `attention/<history>.sessions` for a `SessionHistory`, `gate/<task>` `(B, T, experts)`, and
        `fields` `(B, T, F)`, in float32.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.embeddings import FeatureEmbedding
    >>> from recsys_attn.models.histories import MeanHistory
    >>> from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
    >>> from recsys_attn.models.tower import Tower
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item = Categorical("item", size=7)
    >>> schema = Schema((item, Sequence("seen", shares="item", history="seen")), (Task("click"),))
    >>> inputs = {"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])}
    >>> embedded = FeatureEmbedding(schema, width=4)(inputs)
    >>> tower = Tower({"seen": MeanHistory()}, FieldInteraction(), TaskHeads(["click"]))
    >>> tuple(tower(embedded)["click"].shape)
    (1, 3)
    """

    def __init__(
        self,
        histories: Mapping[str, keras.layers.Layer],
        interaction: keras.layers.Layer,
        head: keras.layers.Layer,
        field_gate: keras.layers.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(histories, Mapping):
            raise TypeError(
                "`histories` must be layers by the name of their history. "
                f"Received: histories={histories!r}"
            )
        self.histories: dict[str, Any] = {
            name: layer_of(f"histories[{name!r}]", layer, "query_mask", such_as="TargetAttention")
            for name, layer in histories.items()
        }
        self.interaction: Any = layer_of(
            "interaction", interaction, "row_mask", such_as="FieldInteraction"
        )
        self.head: Any = layer_of("head", head, "row_mask", such_as="TaskHeads")
        self.field_gate: Any = None
        if field_gate is not None:
            self.field_gate = layer_of("field_gate", field_gate, "present", such_as="FieldGate")

    @property
    def explanations(self) -> tuple[str, ...]:
        """Names of the explanations."""
        attention = [
            f"attention/{name}{kind}"
            for name, history in self.histories.items()
            if self._weighs(name)
            for kind in _weight_names(history)
        ]
        gates = [f"gate/{task}" for task in self.head.tasks] if self._has_gates else []
        return (*attention, *gates, *(["fields"] if self._weighs_fields else []))

    def _weighs(self, history: str) -> bool:
        return getattr(self.histories[history], "returns_weights", False)

    def _uses_times(self, history: str) -> bool:
        return getattr(self.histories[history], "uses_times", False)

    def unread(self, schema: Schema) -> tuple[str, ...]:
        """Returns the features that change no score: ages of histories that use no times."""
        return tuple(
            sequence.name
            for name, sequences in schema.histories.items()
            for sequence in sequences
            if is_age(sequence) and not self._uses_times(name)
        )

    @property
    def _weighs_fields(self) -> bool:
        return self._attends_fields or self._scales_fields

    @property
    def _attends_fields(self) -> bool:
        parts = [getattr(layer, "mechanism", None) for layer in layers_in(self.interaction)]
        mechanisms = [part for part in parts if isinstance(part, Mechanism)]
        return bool(mechanisms) and all(mechanism.returns_weights for mechanism in mechanisms)

    @property
    def _scales_fields(self) -> bool:
        return getattr(self.interaction, "scales_fields", False)

    @property
    def _has_gates(self) -> bool:
        return getattr(self.head, "returns_gates", False)

    @property
    def falls(self) -> bool:
        """Whether no probability is above that of the task before, as in `esmm`."""
        return getattr(self.head, "falls", False)

    @property
    def has_experts(self) -> bool:
        """Whether the gates are those of experts, and not those of a transfer between tasks."""
        return self._has_gates and not isinstance(self.head.experts, AdaptiveTransfer)

    @property
    def last_shared(self) -> list[keras.Variable]:
        """The weights of the last layer that all tasks share: experts, else the interaction."""
        for layer in (getattr(self.head, "experts", None), self.interaction):
            weights = getattr(layer, "shared_variables", None)
            if weights is None and layer is self.interaction:
                weights = layer.trainable_variables
            if weights:
                return list(weights)
        return []

    def field_names(self, embedding: FeatureEmbedding) -> tuple[str, ...]:
        """Returns the names of the fields of the interaction, in their order.

        A history has one field for each aligned sequence, such as `clicks.item`, and further ones,
        such as the strength of the interest, by number; or one of all its sequences, such as
        `clicks.item+shop`, where its vector is not as wide as each of them.

        Fields of one width are together, as in `by_width`.

        Args:
            embedding: That of the model.
        """
        schema = embedding.schema
        embedded = embedding(example_inputs(schema))
        with visiting(None):  # these are no calls of the model
            interests, _ = self.interests(embedded)
        blocks, _ = field_blocks(embedded, interests)
        unused = () if self.field_gate is None else self.field_gate.unused
        names = list(field_names(schema, embedding.width))
        for (history, sequences), block in zip(
            schema.histories.items(), blocks[len(blocks) - len(interests) :], strict=True
        ):
            fields = [sequence.name for sequence in sequences if not is_age(sequence)]
            count = block.shape[-2]
            if len(fields) > count == 1:  # one wide field
                fields = ["+".join(fields)]
            fields = fields[:count] + [str(number + 1) for number in range(len(fields), count)]
            names += [f"{history}.{name}" for name in fields]
        widths = [block.shape[-1] for block in blocks for _ in range(block.shape[-2])]
        ordered = sorted(zip(widths, names, strict=True), key=lambda pair: pair[0])
        return tuple(name for _, name in ordered if name not in unused)

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the parts are built by their first call

    def call(self, embedded: Mapping[str, Any], explain: bool = False) -> Any:
        row_mask = embedded.get(CANDIDATE_MASK)
        vector, attention = self.vector(embedded, explain)
        if not explain:
            return self.head(vector, row_mask=row_mask)
        gates: dict[str, Tensor] = {}
        if self._has_gates:
            logits, gates = self.head(vector, row_mask=row_mask, return_gates=True)
        else:
            logits = self.head(vector, row_mask=row_mask)
        return logits, _explanation(attention, gates)

    def vector(
        self, embedded: Mapping[str, Any], explain: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the input of the head (B, T, D), and with `explain` the weights of its parts."""
        interests, attention = self.interests(embedded, explain)
        blocks, present = field_blocks(embedded, interests)
        row_mask = embedded.get(CANDIDATE_MASK)
        if row_mask is not None:  # a padded candidate has no fields, for statistics and penalties
            present = [ops.logical_and(known, row_mask[..., None]) for known in present]
        if self.field_gate is not None:
            blocks, present = self.field_gate(blocks, present)
        blocks, present = by_width(blocks, present)
        if not explain:
            return self.interaction(blocks, present, row_mask=row_mask), {}
        fields = FieldWeights(sum(block.shape[-2] for block in blocks))
        with visiting(fields.visit), recorded_factors() as factors:
            vector = self.interaction(blocks, present, row_mask=row_mask)
        leading = ops.shape(vector)[:2]
        weights = {name: _of_candidates(x, leading) for name, x in attention.items()}
        if self._attends_fields:
            weights["fields"] = fields.mean(leading)
        elif factors:
            weights["fields"] = mean_factors(factors, present)
        return vector, weights

    def interests(
        self, embedded: Mapping[str, Any], explain: bool = False
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Returns the output of each history, and with `explain` the weights of its events."""
        interests: dict[str, Any] = {}
        attention: dict[str, Tensor] = {}
        for name, history in embedded["histories"].items():
            layer = self.histories[name]
            if "encoded" in history:
                interests[name] = layer.read(
                    history["query"], history["encoded"], history["query_mask"]
                )
                continue
            with_weights = {"return_weights": True} if explain and self._weighs(name) else {}
            interests[name] = layer(
                history["query"],
                history["events"],
                history["event_mask"],
                query_mask=history["query_mask"],
                **self._of_request(name, embedded),
                **with_weights,
            )
            if with_weights:
                interests[name], *weights = interests[name]
                kinds = _weight_names(self.histories[name])
                attention |= {
                    f"attention/{name}{k}": w for k, w in zip(kinds, weights, strict=True)
                }
        return interests, attention

    def encode(self, embedded: Mapping[str, Any]) -> dict[str, Encoded]:
        """Returns the encoded events of each history with an encoder, by its name.

        `embedded["histories"][name]` may have them as `encoded` in place of `events`, with their
        mask as `event_mask`; the weights of these events are then not explained.
        """
        return {
            name: layer.encode(
                embedded["histories"][name]["events"],
                embedded["histories"][name]["event_mask"],
                **self._of_request(name, embedded),
            )
            for name, layer in self.histories.items()
            if isinstance(layer, EncodedHistory)
        }

    def _of_request(self, name: str, embedded: Mapping[str, Any]) -> dict[str, Any]:
        """The times of the events and the features of the request that a history takes."""
        options: dict[str, Any] = {}
        if self._uses_times(name):
            options["times"] = embedded["histories"][name]["times"]
        context = getattr(self.histories[name], "context", None)
        if context is not None:
            features = [embedded["named"][feature] for feature in context.features]
            options["context"] = [one["vector"] for one in features]
            options["context_mask"] = ops.stack([one["present"] for one in features], axis=1)
        return options


def _weight_names(history: Any) -> tuple[str, ...]:
    """What follows the history's name in the names of a layer's weights, of several kinds."""
    return getattr(history, "weight_names", ("",))


def _of_candidates(weights: Tensor, leading: tuple[Any, ...]) -> Tensor:
    weights = ops.cast(weights, "float32")
    if len(weights.shape) == 4:  # (B, N, T, S)
        weights = ops.mean(weights, axis=1)
    # A history without candidate features has one query for all candidates.
    return ops.broadcast_to(weights, (*leading, ops.shape(weights)[-1]))


def _explanation(weights: Mapping[str, Tensor], gates: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of events, then experts, then fields, as `explanations` has them."""
    parts = {name: of_history for name, of_history in weights.items() if name != "fields"}
    parts |= {f"gate/{task}": ops.cast(gate, "float32") for task, gate in gates.items()}
    return parts | ({"fields": weights["fields"]} if "fields" in weights else {})


def field_blocks(
    embedded: Mapping[str, Any], interests: Mapping[str, Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the blocks `(B, T, F, E)` of features and histories, and their presence masks."""
    parts = list(zip(embedded["candidate"], embedded["candidate_present"], strict=True))
    parts += [
        (block[:, None], present[:, None])
        for block, present in zip(embedded["context"], embedded["context_present"], strict=True)
    ]
    widths = {block.shape[-1] for block, _ in parts}
    for name, interest in interests.items():
        width = interest.shape[-1]
        # One field per aligned sequence if all fields have one width, else one wide field.
        if len(widths) == 1 and width % min(widths) == 0:
            width = min(widths)
        count = interest.shape[-1] // width
        block = ops.reshape(interest, (*ops.shape(interest)[:2], count, width))
        happened = ops.any(embedded["histories"][name]["event_mask"], axis=-1)
        parts.append((block, ops.repeat(happened[:, None, None], count, axis=-1)))
    return [block for block, _ in parts], [present for _, present in parts]


def by_width(blocks: list[Tensor], present: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Returns one block of fields for each width, for all candidates, and the presence masks."""
    batch, candidates = ops.shape(blocks[0])[:2]  # those of candidates come first
    grouped: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for block, known in zip(blocks, present, strict=True):
        grouped.setdefault(block.shape[-1], []).append(
            (
                ops.broadcast_to(block, (batch, candidates, *block.shape[-2:])),
                ops.broadcast_to(known, (batch, candidates, block.shape[-2])),
            )
        )
    pairs = [grouped[width] for width in sorted(grouped)]
    return (
        [ops.concatenate([block for block, _ in group], axis=-2) for group in pairs],
        [ops.concatenate([known for _, known in group], axis=-1) for group in pairs],
    )
