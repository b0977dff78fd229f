"""DIEN's two layers over a history: interests, and how they evolve for a candidate."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.core.places import front_first
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.blocks.attentional_gru import AttentionalGru
from recsys_attn.blocks.sequence_mixers import RecurrentMixer
from recsys_attn.checks import require_number
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.layer import Layer
from recsys_attn.random_integers import random_below
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InterestExtractor(Layer):
    """A GRU over the events whose states predict the next event, by an auxiliary loss.

    In training `loss += weight * mean_(b, t) (-log sigmoid(h_t . e_(t+1)) - log(1 - sigmoid(h_t .
    n_t)))`, with the state `h_t` after event t of request b and the next event `e_(t+1)`, over all
    steps with a next event. The negative `n_t` is an event of another request of the batch (of the
    micro-batch, where there are some), drawn anew for each step, popular ones more often. It may by
    chance be an item of the user too. A request without others around it has no such loss.

    Without the loss only the last state is taught, by the label.

    Source: Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction",
    AAAI 2019, arXiv 1809.03672, equation 6; its negatives are items that were not clicked, and the
    authors' code has a network in the place of the dot product.

    Args:
        weight: Factor of the loss. Defaults to 1.0; lower it where the scores get worse, and set 0
            for no loss.

    Call arguments:
        inputs: (B, S, E), oldest first.
        present: (B, S), False for padding, which must stand behind the events.

    Returns:
        (B, S, E), the states; zeros for padding.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.interests import InterestExtractor
    >>> layer, events = InterestExtractor(), keras.random.normal((2, 5, 8))
    >>> tuple(layer(events, np.ones((2, 5), bool), training=True).shape)
    (2, 5, 8)
    >>> len(layer.losses)
    1
    """

    adds_losses = True

    def __init__(self, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("weight", weight, least=0)
        self.weight = weight
        self.gru = RecurrentMixer("gru", dtype=self.dtype_policy)
        self.draws = keras.random.SeedGenerator()

    def build(self, inputs_shape: Shape, present_shape: Shape | None = None) -> None:
        self.gru.build(inputs_shape)
        self.built = True

    def call(self, inputs: Tensor, present: Tensor, training: bool | None = None) -> Tensor:
        states = self.gru(inputs, present=present)
        if training and self.weight:
            self.add_loss(self.weight * self._loss(states, inputs, ops.cast(present, "bool")))
        return states

    def _loss(self, states: Tensor, events: Tensor, present: Tensor) -> Tensor:
        states, events = (ops.cast(x, "float32") for x in (states, events))
        drawn, some = self._from_others(present)
        negatives = ops.take(ops.reshape(events, (-1, events.shape[-1])), drawn, axis=0)
        positive = ops.sum(states[:, :-1] * events[:, 1:], axis=-1)
        negative = ops.sum(states[:, :-1] * negatives[:, 1:], axis=-1)
        losses = ops.softplus(-positive) + ops.softplus(negative)
        counts = ops.logical_and(ops.logical_and(present[:, :-1], present[:, 1:]), some)
        total = ops.sum(ops.where(counts, losses, ops.zeros_like(losses)))
        return total / ops.maximum(ops.sum(ops.cast(counts, "float32")), 1.0)

    def _from_others(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Returns an event of another request for each event, as its place among all B S.

        Each event of the other requests is equally likely. Also returns whether there is one, for
        each request (B, 1).
        """
        counts = ops.sum(ops.cast(present, "int32"), axis=1, keepdims=True)
        before = ops.cumsum(counts, axis=0) - counts
        others = ops.sum(counts) - counts
        drawn = random_below(ops.shape(present), others, self.draws)
        drawn = drawn + ops.where(drawn >= before, counts, 0)  # over the own events
        order, _ = front_first(ops.reshape(present, (1, -1)))
        last = ops.size(present) - 1
        return ops.take(order[0], ops.minimum(drawn, last), axis=0), others > 0


@keras.saving.register_keras_serializable(package="recsys_attn")
class InterestEvolution(Layer):
    """A second GRU for each candidate over the interests, led by its attention to them.

    `a_s = softmax_s(h_s W q)`, and the last state of an `AttentionalGru` over `h` with `a`. An
    empty history gives zeros.

    Source: Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction",
    AAAI 2019, arXiv 1809.03672, equations 7 to 15.

    Args:
        kind: `"augru"`, `"agru"` or `"aigru"`, of `AttentionalGru`.
        mechanism: Attention of a candidate to the interests, with weights: an instance, a name or
            a config of `recsys_attn.attention.presets`. Defaults to the softmax above. The authors'
            code has `presets.din(weighting="softmax")`.

    Call arguments:
        query: (B, T, K).
        events: (B, S, K), the interests.
        event_mask: (B, S).
        query_mask: (B, T), False at padded candidates, whose output is zero.
        return_weights: Whether to return the weights too.

    Returns:
        (B, T, K), and with `return_weights` also (B, T, S), which sum to 1.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.interests import InterestEvolution
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> tuple(InterestEvolution("aigru")(query, events, np.ones((2, 5), bool)).shape)
    (2, 3, 8)
    """

    returns_weights = True

    def __init__(self, kind: str = "augru", mechanism: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        policy = {"dtype": self.dtype_policy}
        attention = Dense("general", **policy) if mechanism is None else presets.fresh(mechanism)
        attention.require_weights("The evolution of interests")
        self.attention = TargetAttention(attention, **policy)
        self.gru = AttentionalGru(kind, **policy)

    def build(self, query_shape: Shape, events_shape: Shape, *shapes: Shape) -> None:
        self.attention.build(query_shape, events_shape)
        self.gru.build(events_shape)
        self.built = True

    def call(
        self,
        query: Tensor,
        events: Tensor,
        event_mask: Tensor,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        _, weights = self.attention(
            query, events, history_mask=event_mask, query_mask=query_mask, return_weights=True
        )
        state = self.gru(events, weights, present=event_mask)
        if query_mask is not None:
            state = state * ops.cast(query_mask, state.dtype)[..., None]
        return (state, weights) if return_weights else state

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "kind": self.gru.kind,
            "mechanism": serialize(self.attention.mechanism),
        }
