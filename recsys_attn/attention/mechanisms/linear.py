"""Linear attention: sums over the keys first, queries afterwards."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from keras import ops

from recsys_attn.attention import decays, feature_maps
from recsys_attn.attention.core.causal_prefix_sums import prefix_attention
from recsys_attn.attention.core.decayed_prefix_sums import decayed_attention
from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    require_a_value_a_key,
    swap_heads,
)
from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


class LinearState(NamedTuple):
    """The state of linear attention after some events, in float32.

    Args:
        sums: The features of the keys times the values, summed over events: (B, N, M, V).
        totals: The features of the keys, summed over events: (B, N, M).
    """

    sums: Tensor
    totals: Tensor


@MECHANISMS.register("linear")
class Linear(Mechanism):
    """Attention with a similarity that is a product of features, so that keys are summed once.

    `output[t] = phi(q[t]) . sum_s phi(k[s]) v[s]^T / (phi(q[t]) . sum_s phi(k[s]))`, for each head

    Time and memory grow with T plus S. The sums over the events so far are a state of a fixed
    size: `update` adds new events to it, and `read` returns the output of any number of
    candidates, both without the history. Everything is computed in float32. The output of a query
    that may attend no key is zero.

    With a `decay` the past fades: event s counts for `prod_{s < j <= t} share[j]` of its weight at
    the query t; queries of other keys come after all keys.

    With `causal` the sums are running sums, computed in chunks with all pairs inside a chunk:
    memory grows with S * (chunk + M * V / chunk) and not with S * M * V.

    Source: Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention", ICML 2020, arXiv 2006.16236; those of decays are in
    `recsys_attn.attention.decays`. Retentive and gated linear attention do not divide, and
    normalise the output of each head afterwards; here it is divided, with any decay.

    Args:
        feature_map: phi: an instance, a name or a config of
            `recsys_attn.attention.feature_maps`. Defaults to `"elu"`.
        causal: Whether to hide later events from a query; T must then be S. Defaults to False.
        chunk: Number of events in a chunk with `causal`. Defaults to 128; it changes the speed and
            the memory only. With a decay a chunk has 16.
        decay: The share of the past that is left after each event: an instance, a name or a config
            of `recsys_attn.attention.decays`, such as `"fixed"` or `"gate"`. Defaults to none; use
            it where recent events matter more.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`, or by name `query_mask` (B, T) and `key_mask` (B, S), False for padding.

    One of the two batches, of queries or of keys, may be 1. Padded values must be finite.

    Returns:
        The output of each head (B, T, N, V), and None for the weights.

    Raises:
        ValueError: `chunk` is not positive, or T is not S with `causal`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Linear
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> linear = Linear("elu")
    >>> output, _ = linear(candidates, history, history)
    >>> state = linear.initial_state(batch_size=2)
    >>> state = linear.update(state, history[:, :40], history[:, :40])
    >>> state = linear.update(state, history[:, 40:], history[:, 40:])
    >>> bool(np.allclose(linear.read(state, candidates), output, atol=1e-5))
    True
    """

    honours = ("query_mask", "key_mask")
    elsewhere: ClassVar = {
        **Mechanism.elsewhere,
        "weighting": "features take the place of scores and a softmax; Dense takes a weighting",
        "score": "features take the place of scores and a softmax; Dense takes a score",
        "pattern": "it sums over all keys; Dense takes a pattern, and causal=True is here",
    }

    def __init__(
        self,
        feature_map: Any = "elu",
        *,
        causal: bool = False,
        chunk: int = 128,
        decay: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("causal", causal)
        require_positive("chunk", chunk)
        self.feature_map = feature_maps.get(feature_map, dtype=self.dtype_policy)
        self.decay = None if decay is None else decays.get(decay, dtype=self.dtype_policy)
        self.causal = causal
        self.chunk = chunk
        self._state_size: Shape | None = None  # N, M, V

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        build_part(self, "feature map", self.feature_map, query_shape, key_shape)
        _, _, heads, size = key_shape
        features = self.feature_map.count(size)
        if self.decay is not None:
            features_shape = (key_shape[0], heads, key_shape[1], features)
            build_part(self, "decay", self.decay, key_shape, features_shape)
        self._state_size = (heads, features, value_shape[-1])

    def call(self, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> tuple[Tensor, None]:
        query_features, key_features = self.feature_map(
            query, key, key_mask=masks.key, streaming=self.causal
        )
        value = ops.cast(swap_heads(value), "float32")
        if self.causal and masks.context_size:  # every query comes after the context
            before = ((0, 0), (0, 0), (masks.context_size, 0), (0, 0))
            query_features = ops.pad(query_features, before)
        key_features, log_shares = self._decayed(key_features, key, masks.key)
        if self.causal:
            _require_one_length(query_features.shape[2], key.shape[1])
            batch, heads, _, size = ops.shape(query_features)
            # So that a graph of unknown sizes fails too if T is not S.
            query_features = ops.reshape(query_features, (batch, heads, ops.shape(key)[1], size))
            output = self._running(query_features, key_features, value, log_shares)
            output = output[:, :, masks.context_size :]
        else:
            state, _ = _summed(key_features, value, log_shares)
            output = self._read(state, query_features)
        if masks.query is not None:
            output = ops.where(masks.query[:, None, :, None], output, 0.0)
        return ops.cast(swap_heads(output), self.compute_dtype), None

    def _decayed(
        self, features: Tensor, key: Tensor, key_mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the features with which events enter, and the logarithms of their shares."""
        if self.decay is None:
            return features, None
        log_shares = self.decay(key, features, key_mask=key_mask)
        if self.decay.enters:
            features = features * -ops.expm1(log_shares)
        return features, log_shares

    def require_context(self) -> None:
        """Raises with a decay, by which the context would fade from event to event."""
        if self.decay is not None:
            super().require_context()

    def _running(
        self, query: Tensor, key: Tensor, value: Tensor, log_shares: Tensor | None
    ) -> Tensor:
        options = {
            "per_channel": self.feature_map.per_channel,
            "floor": self.feature_map.floor,
        }
        if log_shares is None:
            return prefix_attention(query, key, value, self.chunk, **options)
        return decayed_attention(query, key, value, log_shares, **options)

    def initial_state(self, batch_size: Any) -> LinearState:
        """Returns the state before the first event."""
        if self._state_size is None:
            raise ValueError(
                "The size of the state is not known before the layer is built. Call the layer, "
                "or its `build(query_shape, key_shape, value_shape)`, first"
            )
        heads, features, size = self._state_size
        return LinearState(
            ops.zeros((batch_size, heads, features, size), dtype="float32"),
            ops.zeros((batch_size, heads, features), dtype="float32"),
        )

    def update(
        self, state: LinearState, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> LinearState:
        """The state after some more events.

        Args:
            state: The state before them.
            key: (B, S, N, H), of any number S of events.
            value: (B, S, N, V).
            key_mask: (B, S), False for events that are only padding.
        """
        features = self.feature_map.map_key(key, key_mask, streaming=True)
        features, log_shares = self._decayed(features, key, key_mask)
        more, share = _summed(features, ops.cast(swap_heads(value), "float32"), log_shares)
        if share is not None:
            state = LinearState(
                ops.multiply(state.sums, share[..., None]), ops.multiply(state.totals, share)
            )
        # Not `+`: a stored state may be a NumPy array.
        return LinearState(ops.add(state.sums, more.sums), ops.add(state.totals, more.totals))

    def read(self, state: LinearState, query: Tensor) -> Tensor:
        """Returns the output (B, T, N, V) of queries (B, T, N, H) over the events so far.

        One of the two batches, of queries or of the state, may be 1.
        """
        output = self._read(state, self.feature_map.map_query(query))
        return ops.cast(swap_heads(output), self.compute_dtype)

    def step(
        self, query: Tensor, key: Tensor, value: Tensor, state: LinearState
    ) -> tuple[Tensor, LinearState]:
        """Adds one event (B, 1, N, ...); returns its output and the new state.

        Event by event this equals one call of the layer with `causal`.
        """
        state = self.update(state, key, value)
        return self.read(state, query), state

    def _read(self, state: LinearState, features: Tensor) -> Tensor:
        """(B, N, T, M) -> (B, N, T, V)."""
        totals = ops.expand_dims(state.totals, -1)
        floor = self.feature_map.floor
        if self.feature_map.per_channel:
            means = ops.divide(state.sums, ops.maximum(totals, floor))
            return batched_matmul(features, means)
        normaliser = ops.maximum(batched_matmul(features, totals), floor)
        return batched_matmul(features, state.sums) / normaliser

    @property
    def encodes_order(self) -> bool:
        return self.decay is not None

    @property
    def is_causal(self) -> bool:
        return self.causal


def _summed(
    features: Tensor, value: Tensor, log_shares: Tensor | None
) -> tuple[LinearState, Tensor | None]:
    """(B, N, S, M), (B, N, S, V) -> the sums over S, and the share of earlier sums that remains."""
    share = None
    if log_shares is not None:
        # From the end, where the shares count: sums over a long past round more.
        since = ops.flip(ops.cumsum(ops.flip(log_shares, axis=2), axis=2), axis=2)
        features = features * ops.exp(since - log_shares)
        share = ops.exp(ops.sum(log_shares, axis=2))
    sums = batched_matmul(ops.swapaxes(features, 2, 3), value)
    return LinearState(sums, ops.sum(features, axis=2)), share


def _require_one_length(queries: int | None, keys: int | None) -> None:
    if queries is not None and keys is not None and queries != keys:
        raise ValueError(
            "With `causal` a sequence attends to itself, so `query` and `key` must have the "
            f"same length; for candidates over a history leave `causal` False. "
            f"Received: {queries} queries and {keys} keys"
        )
