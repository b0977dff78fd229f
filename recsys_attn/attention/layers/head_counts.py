"""Numbers and sizes of heads that differ between queries, keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recsys_attn.checks import require_positive


def head_sizes_of(name: str, head_dim: Any) -> tuple[int, int]:
    """Returns the sizes H of queries and keys and V of values, for a number or a pair.

    Raises:
        ValueError: It is neither.
    """
    if not _is_list(head_dim):
        require_positive(name, head_dim)
        return head_dim, head_dim
    if len(head_dim) != 2:
        raise ValueError(
            f"`{name}` must be a positive integer, or a pair: the size of queries and keys, and "
            f"that of values. Received: {name}={head_dim!r}"
        )
    for index, size in enumerate(head_dim):
        require_positive(f"{name}[{index}]", size)
    return head_dim[0], head_dim[1]


def key_head_of_each(name: str, num_heads: Any) -> tuple[int, ...]:
    """Returns the key head of each query head, for a number or a pair.

    Raises:
        ValueError: It is neither, or the second number does not divide the first.
    """
    if not _is_list(num_heads):
        require_positive(name, num_heads)
        return tuple(range(num_heads))
    if len(num_heads) != 2:
        raise ValueError(
            f"`{name}` must be a positive integer, or a pair: the number of heads of queries, "
            f"and that of keys and values. Received: {name}={num_heads!r}"
        )
    count, keys = num_heads
    require_positive(f"{name}[0]", count)
    if _is_list(keys):
        return _checked(name, count, keys)
    require_positive(f"{name}[1]", keys)
    if count % keys:
        raise ValueError(
            "The number of key heads must divide that of query heads, so that each is shared by "
            f"equally many. Received: {name}={list(num_heads)}"
        )
    return tuple(head // (count // keys) for head in range(count))


def head_count(key_heads: Sequence[int]) -> Any:
    """Returns the shortest `num_heads` for the key head of each query head."""
    count, keys = len(key_heads), max(key_heads) + 1
    if keys == count:
        return count
    regular = count % keys == 0 and key_head_of_each("num_heads", (count, keys)) == tuple(key_heads)
    return [count, keys if regular else list(key_heads)]


def size_pair(size: int, value_size: int) -> Any:
    """Returns the shortest `head_dim` for the two sizes of heads."""
    return size if size == value_size else [size, value_size]


def key_heads_to_keep(key_heads: Sequence[int], keep: Sequence[int]) -> list[int]:
    """Returns the key heads that some of the query heads use."""
    return sorted({key_heads[head] for head in keep})


def _checked(name: str, count: int, key_heads: Sequence[Any]) -> tuple[int, ...]:
    rising = [0, *key_heads][:-1] if key_heads else []
    fits = len(key_heads) == count and all(
        isinstance(head, int) and 0 <= head - before <= 1
        for head, before in zip(key_heads, rising, strict=True)
    )
    if not fits or key_heads[0] != 0:
        raise ValueError(
            f"A list in `{name}` is the key head of each query head, from 0 on in rising order. "
            f"Received: {name}={[count, list(key_heads)]}"
        )
    return tuple(key_heads)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
