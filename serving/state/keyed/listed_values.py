"""Values of histories as 64-bit words: numbers by their bits, texts by their place in a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.definitions.key_kinds import key_kind


def to_words(column: pa.ChunkedArray, texts: list[str]) -> np.ndarray:
    """`(rows,)`, int64: the bits of each number, or the place of each text in `texts`.

    Args:
        column: Values; those of nulls are of no use.
        texts: Texts are added at its end.
    """
    kind = key_kind(column.type)
    if kind == "string":
        first = len(texts)
        texts += [_text(value) for value in column.to_pylist()]
        return np.arange(first, len(texts))
    values = column.combine_chunks()
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    if kind == "float64":
        return np.asarray(
            values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        ).view(np.int64)
    return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def to_array(known: np.ndarray, words: np.ndarray, kind: pa.DataType, texts: list[str]) -> pa.Array:
    """The values of events as a column.

    Args:
        known: Whether each value is not null.
        words: Of `to_words`.
        kind: The type of the column.
        texts: Of `to_words`.
    """
    if key_kind(kind) == "string":
        places = pa.array(words, mask=~known.astype(bool))
        return pa.array(texts, pa.string()).take(places).cast(kind)
    numbers = words.view(np.float64) if key_kind(kind) == "float64" else words
    values = pa.array(numbers, mask=~known.astype(bool))
    if pa.types.is_temporal(kind) and kind.bit_width == 32:
        values = values.cast(pa.int32())
    return values.cast(kind)


def from_words(known: np.ndarray, words: np.ndarray, kind: str, texts: list[str]) -> list[Any]:
    """The values of events; None where one is null.

    Args:
        known: Whether each value is not null.
        words: Of `to_words`.
        kind: The kind of the column, as `key_kind` gives it.
        texts: Of `to_words`.
    """
    if kind == "string":
        return [
            texts[word] if is_known else None for is_known, word in zip(known, words, strict=True)
        ]
    numbers = words.view(np.float64) if kind == "float64" else words
    return [
        value if is_known else None for is_known, value in zip(known, numbers.tolist(), strict=True)
    ]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
