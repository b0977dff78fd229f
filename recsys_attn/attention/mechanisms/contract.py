"""Checks of the contracts of mechanisms and their parts, on generated input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.tensors import Shape

_SHIFT = 100.0


def require_contract(mechanism: Any, users: Sequence[Any], shapes: Sequence[Shape]) -> None:
    """Raises if a hidden key reaches an output.

    Args:
        mechanism: The built mechanism.
        users: Its parts that the user made, or itself.
        shapes: Of queries (B, T, N, H), keys (B, S, N, H) and values (B, S, N, V); an axis of
            unknown size gets a small one.

    Raises:
        ValueError: An output changes with a key that is hidden, is not zero where all keys are, or
            has another shape.
    """
    query, key, value = _inputs(mechanism, shapes)
    changes: dict[str, tuple[dict[str, Any], np.ndarray]] = {}
    hidden = np.zeros(key.shape[:2], bool)
    hidden[0, 1::2], hidden[1] = True, True
    if "key_mask" in mechanism.honours:
        changes["`key_mask` hides"] = ({"key_mask": ~hidden}, hidden)
    if "attention_mask" in mechanism.honours:
        pairs = np.repeat(~hidden[:, None], query.shape[1], axis=1)
        changes["`attention_mask` hides"] = ({"attention_mask": pairs}, hidden)
    for phrase, (masks, places) in changes.items():
        outputs = [
            _outputs(mechanism, query, key + shift, value + shift, masks)
            for shift in (0.0, _SHIFT * places[:, :, None, None])
        ]
        worst = float(np.abs(outputs[1] - outputs[0])[0].max(initial=0.0))
        if outputs[0].shape != (*query.shape[:3], value.shape[3] // mechanism.projections):
            raise _broken(users, f"output.shape={outputs[0].shape}, query.shape={query.shape}")
        if not worst <= 1e-2 * max(1.0, float(np.abs(outputs[0]).max())):
            raise _broken(users, f"an output that changes by {worst:.3g} with a key that {phrase}")
        empty = float(np.abs(outputs[0][1]).max(initial=0.0))
        if not empty <= 1e-6:
            raise _broken(
                users, f"an output of {empty:.3g} where {phrase.split()[0]} hides every key"
            )
    if mechanism.is_causal and key.shape[1] == query.shape[1]:
        later = np.arange(key.shape[1])[:, None, None] * (_SHIFT / key.shape[1])
        later = np.where(np.arange(key.shape[1])[:, None, None] > 0, later, 0.0)
        before, after = (
            _outputs(mechanism, query, key + shift, value + shift, {})[:, 0] for shift in (0, later)
        )
        worst = float(np.abs(after - before).max(initial=0.0))
        if not worst <= 1e-2 * max(1.0, float(np.abs(before).max())):
            raise _broken(
                users, f"`is_causal`, and a first output that later keys change by {worst}"
            )


def _inputs(mechanism: Any, shapes: Sequence[Shape]) -> list[np.ndarray]:
    """Returns queries, keys and values of two rows."""
    rng = np.random.default_rng(0)
    keys = shapes[1][1] or 5
    one_sequence = mechanism.own_sequence or mechanism.is_causal or mechanism.uses_times
    queries = keys if one_sequence else shapes[0][1] or 3
    sizes: list[tuple[Any, ...]] = [
        (2, count, *shape[2:]) for count, shape in zip((queries, keys, keys), shapes, strict=True)
    ]
    tensors = [rng.normal(size=size).astype("float32") for size in sizes]
    return [tensors[1] if mechanism.shares_query_and_key else tensors[0], *tensors[1:]]


def _outputs(mechanism: Any, query: Any, key: Any, value: Any, masks: dict[str, Any]) -> np.ndarray:
    tensors = [ops.convert_to_tensor(x, mechanism.compute_dtype) for x in (query, key, value)]
    if mechanism.uses_times:
        times = {
            "query_positions": np.arange(query.shape[1]),
            "key_positions": np.arange(key.shape[1]),
        }
        masks = {**masks, **times}
    output, _ = mechanism(*tensors, **masks)
    return np.asarray(ops.convert_to_numpy(ops.cast(output, "float32")))


def _broken(users: Sequence[Any], received: str) -> ValueError:
    names = ", ".join(dict.fromkeys(type(part).__name__ for part in users))
    # A layer inside a part has no contract of its own.
    promises = dict.fromkeys(part.contract for part in users if hasattr(part, "contract"))
    return ValueError(
        f"{names} must keep the contract of its kind: {'; '.join(promises)}. "
        f"Received, on generated input: {received}"
    )
