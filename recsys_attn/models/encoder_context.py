"""The option `encoder.context` of models: features of the request for the encoder of a history."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.head_groups import HeadGroups
from recsys_attn.attention.mechanisms.linear import Linear
from recsys_attn.checks import unknown_name
from recsys_attn.embedding_tables import width_of
from recsys_attn.models import encoders
from recsys_attn.models.option_tables import EncoderContext, EncoderOptions
from recsys_attn.schema import Schema, Sequence


def require_context(schema: Schema, width: int, encoder: EncoderOptions) -> None:
    """Raises unless the features of the request fit a model and its encoder.

    Raises:
        ValueError: A feature is not one of the request, or the encoder cannot have this context.
    """
    context = encoder.context
    if context is None:
        return
    if not context.features:
        raise ValueError("`encoder.context.features` must have at least one name. Received: []")
    known = [f.name for f in schema.features if f.side == "context" and not isinstance(f, Sequence)]
    for name in context.features:
        if name not in known:
            raise ValueError(
                "`encoder.context.features` are single features of the request (side = 'context', "
                "no sequence), since the encoder runs once for all candidates. "
                f"{unknown_name(name, known)}"
            )
    widths = {name: width_of(schema, name, width) for name in context.features}
    if context.stacked and len(set(widths.values())) > 1:
        raise ValueError(
            f'`encoder.context` with how = "{context.how}" needs features of one `width`. Give '
            f'them one, or use how = "norm" or "film". Received: {widths}'
        )
    _require_fit(context, encoder.name, schema)


def context_features(encoder: EncoderOptions | None) -> tuple[str, ...]:
    """Returns the features that the embedding gives by name."""
    context = None if encoder is None else encoder.context
    return () if context is None else tuple(context.features)


def _require_fit(context: EncoderContext, encoder: Any, schema: Schema) -> None:
    """Raises unless an encoder can have the context."""
    if context.how == "film":
        return
    if encoders.has_segments(encoder):
        _refuse(context, 'An encoder over "segments" takes no context', '"film"')
    if not context.stacked:
        return
    mechanism = encoders.mechanism_of(encoder)
    if mechanism is None:
        _refuse(context, f"The encoder {encoder!r} has no attention", '"norm" or "film"')
    mechanism = presets.get(mechanism)
    if context.how == "keys":
        try:
            mechanism.require_context()
        except TypeError as error:
            _refuse(context, str(error), '"norm" or "film"')
    else:
        lengths = [sequences[0].max_length for sequences in schema.histories.values()]
        _require_seen(context, mechanism, max(lengths, default=1))


def _require_seen(context: EncoderContext, mechanism: Mechanism, events: int) -> None:
    """Raises unless every event sees the tokens in front."""
    if isinstance(mechanism, HeadGroups):
        for part in mechanism.mechanisms:
            _require_seen(context, part, events)
        return
    if isinstance(mechanism, Linear) and mechanism.decay is None:
        return
    count = len(context.features)
    if isinstance(mechanism, Dense) and mechanism.uses_key:
        if mechanism.pattern is None:
            return
        rows = np.arange(count + events, dtype="int32").reshape(1, 1, -1, 1)
        columns = np.arange(count, dtype="int32").reshape(1, 1, 1, -1)
        seen = ops.convert_to_numpy(mechanism.pattern(rows, columns, count + events))
        if np.broadcast_to(seen, (*seen.shape[:2], count + events, count))[..., count:, :].all():
            return
    _refuse(
        context,
        f"With {mechanism!r} not every event sees the {count} tokens in front. Use Dense without a "
        f"pattern, with 'causal' or with Prepended({count}, ...), or Linear without a decay",
        '"norm" or "film"',
    )


def _refuse(context: EncoderContext, why: str, instead: str) -> None:
    raise ValueError(
        f'`encoder.context` with how = "{context.how}" does not fit `encoder`. {why}; or use '
        f"how = {instead}"
    )
