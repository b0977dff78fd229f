"""The contrastive objective: two views of a history are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number, unknown_name
from recsys_attn.models.item_scores import normalised
from recsys_attn.objectives.base import OBJECTIVES, Inputs, Loss, Objective
from recsys_attn.schema import PADDING_ID, UNKNOWN_ID
from recsys_attn.tensors import Tensor

VIEWS = ("crop", "mask", "reorder")


@OBJECTIVES.register("contrastive")
class Contrastive(Objective):
    """Two changed views of a history are nearer to each other than to those of other users.

    `loss = mean over views v of -log(exp(cos(v, v') / t) / sum over other views u of
    exp(cos(v, u) / t))`, over the 2 B views of a batch, with the states that predict the next item.
    Each view is changed by one of the kinds: `"crop"` keeps a part of following events, `"mask"`
    makes events unknown, `"reorder"` mixes a part. Histories of one event have no view.

    Source: Xie et al., "Contrastive Learning for Sequential Recommendation" (CL4SRec), ICDE 2022,
    arXiv 2010.14395.

    Args:
        views: Kinds of changes, of which one is drawn for each view.
        crop: Share of the events that is kept.
        mask: Share of the events that is made unknown.
        reorder: Share of the events that is mixed.
        temperature: Divides the cosines. Lower it where views of other users stay near.
        weight: Factor of the loss in the sum of all objectives; the paper takes 0.1 beside
            `next_item`.

    Raises:
        ValueError: An argument is out of range.

    Example:

    >>> from recsys_attn.objectives import Contrastive
    >>> Contrastive(views=("crop", "mask"), weight=0.1).views
    ('crop', 'mask')
    """

    by_row = False

    def __init__(
        self,
        *,
        views: Sequence[str] = VIEWS,
        crop: float = 0.6,
        mask: float = 0.3,
        reorder: float = 0.6,
        temperature: float = 0.5,
        weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight=weight, **kwargs)
        if isinstance(views, str) or not views:
            raise ValueError(f"`views` must be a list of kinds. Received: views={views!r}")
        for view in views:
            if view not in VIEWS:
                raise ValueError(f"`views` must be kinds of changes. {unknown_name(view, VIEWS)}")
        for name, value in (("crop", crop), ("mask", mask), ("reorder", reorder)):
            require_number(name, value, above=0, below=1)
        require_number("temperature", temperature, above=0)
        self.views = tuple(views)
        self.crop, self.mask, self.reorder, self.temperature = crop, mask, reorder, temperature
        self.draws = keras.random.SeedGenerator()

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        present = ops.any(
            ops.stack([ops.not_equal(x, PADDING_ID) for x in inputs.values()]), axis=0
        )
        views = [self.view(inputs, present, model.item) for _ in range(2)]
        both = {name: ops.concatenate([v[name] for v in views], axis=0) for name in inputs}
        states = normalised(ops.cast(model.next_states(both, training=True), "float32"))
        has_view = ops.sum(ops.cast(present, "int32"), axis=1) > 1
        valid = ops.concatenate([has_view, has_view])
        rows = ops.shape(valid)[0]
        itself = ops.eye(rows, dtype="bool")
        left_out = ops.logical_or(itself, ops.logical_not(valid)[None])
        cosines = ops.matmul(states, ops.transpose(states)) / self.temperature
        cosines = ops.where(left_out, -1e9, cosines)
        partner = (ops.arange(rows) + rows // 2) % rows
        alike = ops.take_along_axis(cosines, partner[:, None], axis=1)[:, 0]
        losses = ops.logsumexp(cosines, axis=1) - alike
        counted = ops.cast(valid, "float32")
        return Loss(ops.sum(ops.where(valid, losses, 0.0)), ops.sum(counted))

    def view(self, inputs: Inputs, present: Tensor, item: str) -> dict[str, Tensor]:
        """Returns a changed copy of the histories.

        Args:
            inputs: Ids `(B, S)` by feature.
            present: `(B, S)`, False for padding.
            item: Name of the sequence of items.
        """
        rows, length = ops.shape(present)
        count = ops.sum(ops.cast(present, "int32"), axis=1, keepdims=True)
        kind = keras.random.randint((rows, 1), 0, len(self.views), dtype="int32", seed=self.draws)
        places = ops.arange(length, dtype="int32")[None]
        # Crop: the kept part moves to the front.
        begin, size = self._part(count, self.crop)
        moved = ops.minimum(places + begin, length - 1)
        cropped = places < size
        # Reorder: a part in a drawn order.
        first, mixed = self._part(count, self.reorder)
        inside = ops.logical_and(places >= first, places < first + mixed)
        drawn = keras.random.uniform((rows, length), dtype="float32", seed=self.draws)
        key = ops.cast(places, "float32")
        span = ops.cast(first, "float32") + drawn * ops.cast(mixed, "float32")
        order = ops.argsort(ops.where(inside, span, key), axis=1)
        hidden = keras.random.uniform((rows, length), dtype="float32", seed=self.draws) < self.mask
        views = {}
        for name, x in inputs.items():
            ids = ops.cast(x, "int32")
            by_view = {
                "crop": ops.where(cropped, ops.take_along_axis(ids, moved, axis=1), PADDING_ID),
                "mask": ids,
                "reorder": ops.take_along_axis(ids, order, axis=1),
            }
            if name == item:
                by_view["mask"] = ops.where(ops.logical_and(hidden, present), UNKNOWN_ID, ids)
            result = ids
            for number, view in enumerate(self.views):
                result = ops.where(kind == number, by_view[view], result)
            views[name] = result
        return views

    def _part(self, count: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Returns the begin and the size `(B, 1)` of a drawn part of each history."""
        size = ops.maximum(ops.cast(share * ops.cast(count, "float32"), "int32"), 1)
        drawn = keras.random.uniform(ops.shape(count), dtype="float32", seed=self.draws)
        begin = ops.cast(drawn * ops.cast(count - size + 1, "float32"), "int32")
        return ops.minimum(begin, ops.maximum(count - size, 0)), size
