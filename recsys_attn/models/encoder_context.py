"""The option `encoder_context` of models: features of the request for the encoder of a history."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
from recsys_attn.schema import Schema, Sequence

WAYS = ("norm", "film", "tokens", "keys")


@dataclasses.dataclass(frozen=True)
class EncoderContext:
    """The features of the request that an encoder of its history knows, and how.

    Args:
        features: Names of features with `side="context"`, such as the scenario.
        how: `"norm"`, a conditional normalisation in each block; `"film"`, a scale and a shift of
            the events; `"tokens"`, events in front of the others; `"keys"`, keys and values in
            each attention, with projections of their own.

    Raises:
        ValueError: There is no feature, one stands twice, or `how` is unknown.

    Example:

    >>> from recsys_attn.models.encoder_context import EncoderContext
    >>> EncoderContext.of({"features": ["scenario"], "how": "keys"}).features
    ('scenario',)
    """

    features: tuple[str, ...]
    how: str

    def __post_init__(self) -> None:
        given = self.features
        named = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
        if not named or not given or len(set(given)) < len(given):
            raise ValueError(
                "`encoder_context.features` must be a list of different names of context features, "
                f"at least one. Received: {given!r}"
            )
        if self.how not in WAYS:
            raise ValueError(
                f"`encoder_context.how` must be a name. {unknown_name(self.how, WAYS)}"
            )
        object.__setattr__(self, "features", tuple(given))

    @classmethod
    def of(cls, given: Any) -> EncoderContext:
        """Returns the context of a table with its two keys."""
        if isinstance(given, cls):
            return given
        keys = tuple(field.name for field in dataclasses.fields(cls))
        if not isinstance(given, Mapping) or set(given) != set(keys):
            raise ValueError(
                "`encoder_context` must be a table with the keys `features` and `how`, such as "
                f'{{ features = ["scenario"], how = "norm" }}. Received: {given!r}'
            )
        return cls(**given)

    @property
    def stacked(self) -> bool:
        """Whether each feature is a vector of its own, and not a part of one condition."""
        return self.how in ("tokens", "keys")


def context_of(schema: Schema, width: int, encoder: Any, given: Any) -> EncoderContext | None:
    """Returns the checked option `encoder_context` of a model; None for none.

    Raises:
        ValueError: A feature is not one of the request, or the encoder cannot have this context.
    """
    if given is None:
        return None
    if encoder is None:
        raise ValueError(
            "`encoder_context` has no effect without `encoder`; give both or neither. "
            f"Received: encoder_context={given!r}"
        )
    context = EncoderContext.of(given)
    known = [f.name for f in schema.features if f.side == "context" and not isinstance(f, Sequence)]
    for name in context.features:
        if name not in known:
            raise ValueError(
                "`encoder_context.features` are single features of the request (side = 'context', "
                "no sequence), since the encoder runs once for all candidates. "
                f"{unknown_name(name, known)}"
            )
    widths = {name: width_of(schema, name, width) for name in context.features}
    if context.stacked and len(set(widths.values())) > 1:
        raise ValueError(
            f'`encoder_context` with how = "{context.how}" needs features of one `width`. Give '
            f'them one, or use how = "norm" or "film". Received: {widths}'
        )
    _require_fit(context, encoder, schema)
    return context


def named_by(context: EncoderContext | None) -> tuple[str, ...]:
    """Returns the features that the embedding gives by name."""
    return () if context is None else context.features


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
        for each in mechanism.mechanisms:
            _require_seen(context, each, events)
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
        f'`encoder_context` with how = "{context.how}" does not fit `encoder`. {why}; or use '
        f"how = {instead}"
    )
