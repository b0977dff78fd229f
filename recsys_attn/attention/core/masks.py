"""Masks, bias and positions of one attention call, checked once and in one form."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from recsys_attn.attention.core.mask_checks import require_fit
from recsys_attn.attention.core.places import PlacesAndTimes
from recsys_attn.tensors import Shape, Tensor


class Masks(NamedTuple):
    """Masks, bias and positions of one attention call, as every mechanism receives them.

    True means "may be attended". A size of 1 broadcasts; None means not given.

    Attributes:
        query: (B, T) booleans, False for padded queries, whose output is zeros.
        key: (B, S) booleans, False for padded keys, which nothing attends.
        pairs: (B, N or 1, T, S) booleans, False for pairs that must not meet.
        bias: (B, N or 1, T, S), added to the scores.
        query_positions: (B or 1, N or 1, T), int32.
        key_positions: (B or 1, N or 1, S), int32.
        context: (B, M) booleans, the mask of keys in front that belong to no place of the sequence,
            such as the scenario. `key`, `pairs` and `bias` have M + S keys then.
        query_times, key_times: The positions of a call of a mechanism that reads times, instead of
            `query_positions` and `key_positions`, which are always places.

    Example:

    >>> from recsys_attn.attention.masks import Masks
    >>> masks = Masks.of((2, 3, 1, 8), (2, 5, 1, 8), key_mask=[[1, 1, 1, 0, 0], [1] * 5])
    >>> tuple(masks.allowed().shape)
    (2, 1, 1, 5)
    """

    query: Tensor | None = None
    key: Tensor | None = None
    pairs: Tensor | None = None
    bias: Tensor | None = None
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    context: Tensor | None = None
    query_times: Tensor | None = None
    key_times: Tensor | None = None

    @classmethod
    def of(cls, query_shape: Shape, key_shape: Shape, **arguments: Any) -> Masks:
        """Checks the arguments of a public layer, and returns the record.

        Args:
            query_shape: Shape of the queries, (B, T, N, ...).
            key_shape: Shape of the keys, (B, S, N, ...).
            arguments: By name: `query_mask` (B, T), `key_mask` (B, S), `attention_mask` and
                `attention_bias` (B, T, S) or (B, N, T, S), `query_positions` (T,) or (B, T),
                `key_positions` (S,) or (B, S). None is the same as not given.

        Raises:
            TypeError: A mask is neither boolean nor integer, or positions are not integers.
            ValueError: A shape does not fit.
        """
        require_fit(query_shape, key_shape, **arguments)
        return cls(
            **{
                _FIELDS[name]: _in_form(name, ops.convert_to_tensor(value))
                for name, value in arguments.items()
                if value is not None
            }
        )

    def behind_context(self, key: Tensor, count: int, mask: Tensor | None) -> Masks:
        """Returns the record for a context in front of the keys, which every query may attend.

        Args:
            key: (B, S, ...), the keys without it.
            count: M.
            mask: (B, M) booleans, False for padding in the context.
        """
        batch, keys = ops.shape(key)[:2]
        present = ops.ones((batch, keys), "bool") if self.key is None else self.key
        mask = ops.ones((batch, count), "bool") if mask is None else ops.cast(mask, "bool")
        known = [ops.broadcast_to(mask, (batch, count)), ops.broadcast_to(present, (batch, keys))]
        return self._replace(
            key=ops.concatenate(known, axis=1),
            pairs=None if self.pairs is None else in_front(self.pairs, count, keys, True),
            bias=None if self.bias is None else in_front(self.bias, count, keys, 0.0),
            context=known[0],
        )

    def by_time(self) -> Masks:
        """Returns the record with the positions of a call as times; the places are the default."""
        if self.query_times is not None or self.key_times is not None:
            return self
        times = {"query_times": self.query_positions, "key_times": self.key_positions}
        return self._replace(query_positions=None, key_positions=None, **times)

    @property
    def rows(self) -> PlacesAndTimes:
        """The positions of the queries."""
        return PlacesAndTimes(self.query_positions, self.query_times)

    @property
    def columns(self) -> PlacesAndTimes:
        """The positions of the keys."""
        return PlacesAndTimes(self.key_positions, self.key_times)

    @property
    def context_size(self) -> int:
        """The number M of keys of a context."""
        return 0 if self.context is None else int(self.context.shape[1])

    def allowed(self) -> Tensor | None:
        """Returns the AND of all masks, which broadcasts to (B, N, T, S); None for none."""
        query = None if self.query is None else self.query[:, None, :, None]
        key = None if self.key is None else self.key[:, None, None, :]
        return both(both(query, key), self.pairs)


_FIELDS = {
    "query_mask": "query",
    "key_mask": "key",
    "attention_mask": "pairs",
    "attention_bias": "bias",
    "query_positions": "query_positions",
    "key_positions": "key_positions",
}
MASK_ARGUMENTS = tuple(_FIELDS)  # of every public layer of attention


def _in_form(name: str, value: Tensor) -> Tensor:
    """Returns a checked argument with the dtype and the axes of its field."""
    if name.endswith("positions"):
        value = ops.cast(value, "int32")
        return value[None, None] if len(value.shape) == 1 else _with_heads(value, 3)
    value = ops.cast(value, "float32" if name == "attention_bias" else "bool")
    return value if name in ("query_mask", "key_mask") else _with_heads(value, 4)


def _with_heads(value: Tensor, rank: int) -> Tensor:
    return value if len(value.shape) == rank else value[:, None]


def in_front(pairs: Tensor, count: int, keys: Tensor, value: Any) -> Tensor:
    """Returns pairs (..., S or 1) of `keys` keys with one value for `count` more in front."""
    shape = ops.shape(pairs)[:-1]
    first = ops.full((*shape, count), value, dtype=pairs.dtype)
    return ops.concatenate([first, ops.broadcast_to(pairs, (*shape, keys))], axis=-1)


def both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Returns the AND of two masks; None stands for everything allowed."""
    if first is None or second is None:
        return second if first is None else first
    return ops.logical_and(first, second)
