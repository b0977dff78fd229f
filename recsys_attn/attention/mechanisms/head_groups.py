"""Another mechanism for each group of heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import swap_heads
from recsys_attn.attention.core.masks import MASK_ARGUMENTS, Masks
from recsys_attn.attention.core.weights import dense_weights
from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism, with_presets
from recsys_attn.checks import require_positive
from recsys_attn.layer import build_part
from recsys_attn.tensors import Config, Shape, Tensor


def _of_any(name: str) -> Any:
    """Returns a property that holds if it holds for one of the mechanisms."""
    return property(lambda groups: any(getattr(m, name) for m in groups.mechanisms))


def _of_all(name: str) -> Any:
    """Returns a property that holds if it holds for all of the mechanisms."""
    return property(lambda groups: all(getattr(m, name) for m in groups.mechanisms))


@MECHANISMS.register("head_groups")
class HeadGroups(Mechanism):
    """Some heads with one mechanism, some with another, such as half local and half routed.

    `output = [mechanism_1(heads 0 ... n_1 - 1); mechanism_2(the next n_2); ...]`

    Near and far events have separate heads, each at its cost. Where the positions of a
    call are times, mechanisms that do not read times count places.

    Source: Roy et al., "Efficient Content-Based Sparse Attention with Routing Transformers", TACL
    2021, arXiv 2003.05997, where half of the heads are local and half routed.

    Args:
        mechanisms: The mechanisms: instances, names or configs of
            `recsys_attn.attention.mechanisms` or `recsys_attn.attention.presets`.
        heads: Number of heads of each. Defaults to equal numbers.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`, or by name those that all of the mechanisms honour.
        return_weights: Whether to return weights too.

    Returns:
        The output of each head (B, T, N, V), and None or the weights (B, N, T, S), dense for fast
        mechanisms too.

    Raises:
        ValueError: There are fewer than two mechanisms, the numbers do not fit the heads, or only
            some of the mechanisms share the projection of queries and keys.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import HeadGroups, MultiHeadAttention
    >>> mechanism = HeadGroups(["local", "routing_transformer"], heads=[3, 1])
    >>> tuple(MultiHeadAttention(4, 8, mechanism)(keras.random.normal((2, 100, 16))).shape)
    (2, 100, 16)
    """

    def __init__(
        self, mechanisms: Sequence[Any], heads: Sequence[int] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(mechanisms, list | tuple) or len(mechanisms) < 2:
            raise ValueError(
                "`mechanisms` must be a list of at least two mechanisms. "
                f"Received: mechanisms={mechanisms!r}"
            )
        self.mechanisms = [with_presets().get(m, dtype=self.dtype_policy) for m in mechanisms]
        if heads is not None:
            self._require_numbers(heads)
        self.group_sizes = None if heads is None else tuple(heads)
        self.honours = tuple(name for name in MASK_ARGUMENTS if not self._without(name))
        self._require_one_projection()

    def _require_numbers(self, heads: Any) -> None:
        for index, number in enumerate(heads if isinstance(heads, list | tuple) else ()):
            require_positive(f"heads[{index}]", number)
        if not isinstance(heads, list | tuple) or len(heads) != len(self.mechanisms):
            raise ValueError(
                f"`heads` must be a list of {len(self.mechanisms)} numbers, one for each "
                f"mechanism. Received: heads={heads!r}"
            )

    def _require_one_projection(self) -> None:
        shared = [m.shares_query_and_key for m in self.mechanisms]
        if any(shared) and not all(shared):
            raise ValueError(
                f"{type(self.mechanisms[shared.index(True)]).__name__} makes queries and keys with "
                "one projection, so all heads must: give the other mechanisms the score "
                "'shared_dot'. "
                f"Received: mechanisms with one projection {shared}"
            )

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        for part, mechanism in zip(self._parts(query_shape[2] or 0), self.mechanisms, strict=True):
            number = part.stop - part.start
            shapes = [
                (*shape[:2], number, shape[3]) for shape in (query_shape, key_shape, value_shape)
            ]
            build_part(self, "mechanisms", mechanism, *shapes)

    def _parts(self, heads: int) -> list[slice]:
        """Returns the heads of each mechanism."""
        count = len(self.mechanisms)
        sizes = self.group_sizes or (heads // count,) * count
        if sum(sizes) != heads or 0 in sizes:
            raise ValueError(
                f"`heads` must sum to the number of heads, {heads}; without it, that must be a "
                f"multiple of {count}. Received: heads={self.group_sizes}"
            )
        starts = [sum(sizes[:index]) for index in range(count)]
        return [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: Masks,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        outputs, weights = [], []
        queries, keys = ops.shape(query)[1], ops.shape(key)[1]
        for part, mechanism in zip(self._parts(query.shape[2]), self.mechanisms, strict=True):
            output, group_weights = mechanism(
                *(x[:, :, part] for x in (query, key, value)),
                masks=_of_heads(masks, part),
                return_weights=return_weights,
            )
            outputs.append(ops.cast(output, self.compute_dtype))
            if self.returns_weights or return_weights:
                weights.append(swap_heads(_cast(dense_weights(group_weights, queries, keys), self)))
        output = ops.concatenate(outputs, axis=2)
        return output, swap_heads(ops.concatenate(weights, axis=2)) if weights else None

    own_sequence = _of_any("own_sequence")
    positional = _of_any("positional")
    uses_times = _of_any("uses_times")
    reads_columns = _of_any("reads_columns")
    uses_query = _of_any("uses_query")
    uses_key = _of_any("uses_key")
    returns_weights = _of_all("returns_weights")
    is_causal = _of_all("is_causal")
    shares_query_and_key = _of_all("shares_query_and_key")

    @property
    def weights_on_request(self) -> bool:
        return all(m.returns_weights or m.weights_on_request for m in self.mechanisms)

    def _without(self, name: str) -> list[Mechanism]:
        """Returns the mechanisms that cannot honour an argument; times are for some of them."""
        times = self.uses_times and name.endswith("positions")
        some = [m for m in self.mechanisms if m.uses_times or not times]
        return [m for m in some if name not in m.honours]

    def reason(self, name: str) -> str:
        return f"{type(self._without(name)[0]).__name__} is one of its mechanisms"

    def require_context(self) -> None:
        for mechanism in self.mechanisms:
            mechanism.require_context()

    def require_distinct_results(self, queries: int, keys: int | None, name: str) -> None:
        for mechanism in self.mechanisms:
            mechanism.require_distinct_results(queries, keys, name)

    def with_each(self, change: Callable[[Mechanism], Any]) -> HeadGroups:
        """Returns the same groups with mechanisms that `change` makes of these."""
        changed = [change(mechanism) for mechanism in self.mechanisms]
        return HeadGroups(changed, self.group_sizes, dtype=self.dtype_policy)

    def as_cross_attention(self) -> HeadGroups:
        """Returns the groups with each mechanism in its form for cross-attention."""
        return self.with_each(lambda mechanism: mechanism.as_cross_attention())

    def take_heads(self, keep: Sequence[int]) -> None:
        raise ValueError(
            "Heads of HeadGroups cannot be cut out: each belongs to one of several mechanisms. "
            f"Received: heads to keep {list(keep)}"
        )

    def get_config(self) -> Config:
        heads = None if self.group_sizes is None else list(self.group_sizes)
        return {**super().get_config(), "heads": heads}


def _of_heads(masks: Masks, part: slice) -> Masks:
    """Returns the masks, the bias and the positions of some heads."""

    def some(x: Tensor | None) -> Tensor | None:
        return x if x is None or x.shape[1] == 1 else x[:, part]

    return masks._replace(
        pairs=some(masks.pairs),
        bias=some(masks.bias),
        query_positions=some(masks.query_positions),
        key_positions=some(masks.key_positions),
        query_times=some(masks.query_times),
        key_times=some(masks.key_times),
    )


def _cast(x: Tensor, layer: Mechanism) -> Tensor:
    return ops.cast(x, layer.compute_dtype)
