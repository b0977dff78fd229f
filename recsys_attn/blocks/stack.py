"""The base class of the stacks of encoders and decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.blocks.norms import NORMS, has_norm, normalise
from recsys_attn.blocks.residual_block import zero_padding
from recsys_attn.checks import require_positive
from recsys_attn.layer import Layer
from recsys_attn.serialization import deserialize, nameless, serialize
from recsys_attn.tensors import Tensor


class Stack(Layer):
    """The base class of stacks of blocks, each applied once or several times, and a final norm.

    Args:
        kind: The class of the blocks.
        blocks: List of blocks, or their configs.
        depth: Number of applications; defaults to the number of blocks.

    Example:

    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock
    >>> from recsys_attn.blocks.stack import Stack
    >>> stack = Stack(TransformerBlock, [TransformerBlock(MultiHeadAttention(2, 4))], depth=3)
    >>> len(stack.blocks), len(stack.applied)
    (1, 3)
    """

    def __init__(self, kind: type, blocks: Any, depth: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.blocks = _blocks_of(kind, blocks)
        if depth is not None:
            require_positive("depth", depth)
        self.depth = depth
        self._require_depth(len(self.blocks) if depth is None else depth)
        self._require_one_meaning()
        last = self.blocks[-1].sublayers[-1]
        norm = None if last.placement == "post" else NORMS.get(last.norm, dtype=self.dtype_policy)
        self.final_norm: Any = norm if norm is not None and has_norm(norm) else None

    @property
    def applied(self) -> list[Any]:
        """The blocks in the order of their use."""
        times = (self.depth or len(self.blocks)) // len(self.blocks)
        return [block for block in self.blocks for _ in range(times)]

    def _require_depth(self, depth: int) -> None:
        """Tells the residuals the depth; raises if it is none of this stack."""
        if depth % len(self.blocks):
            raise ValueError(
                f"`depth` must be a multiple of the number of blocks, {len(self.blocks)}, each "
                f"of which is applied equally often. Received: depth={depth}"
            )
        for residual in (
            sublayer.residual for block in self.blocks for sublayer in block.sublayers
        ):
            if getattr(residual, "depth", None) not in (None, depth):
                raise ValueError(
                    f"`depth` of {type(residual).__name__} is the number of blocks of the stack; "
                    f"leave it out. Received: depth={residual.depth}, in {depth} blocks"
                )
            residual.stack = depth

    @property
    def uses_times(self) -> bool:
        """Whether the positions of a call are times."""
        return any(mechanism.uses_times for mechanism in self._mechanisms)

    @property
    def _mechanisms(self) -> list[Any]:
        attentions = [block.attention for block in self.blocks]
        return [attention.mechanism for attention in attentions if hasattr(attention, "mechanism")]

    def _require_one_meaning(self) -> None:
        for mechanism in self._mechanisms:
            if self.uses_times and mechanism.positional and not mechanism.uses_times:
                raise ValueError(
                    "The positions of a call are times for one of the `blocks` and places for "
                    "another. Give both a score of times, such as 'time_buckets', or neither. "
                    f"Received: {type(mechanism).__name__} with places"
                )

    def finish(self, x: Tensor, present: Tensor | None, condition: Tensor | None) -> Tensor:
        """Returns the output of the final norm, with zeros for padding."""
        if self.final_norm is None:
            return ops.cast(x, self.compute_dtype)  # blocks may have another policy
        return zero_padding(normalise(self.final_norm, x, present, condition), present)

    def unshared(self, groups: int | None = None) -> Any:
        """Returns a built copy in which fewer applications share a block, with the same output.

        For training a shared stack further with more freedom.

        Args:
            groups: Number of blocks of the copy, a divisor of `depth` and a multiple of the number
                of blocks. Defaults to `depth`: nothing is shared.

        Raises:
            ValueError: The stack is not built, or the number of groups does not fit.
        """
        groups = len(self.applied) if groups is None else groups
        require_positive("groups", groups)
        if not self.built or groups % len(self.blocks) or len(self.applied) % groups:
            raise ValueError(
                f"`groups` must divide the depth {len(self.applied)} and be a multiple of the "
                f"{len(self.blocks)} blocks, and the stack must be built. "
                f"Received: groups={groups}, built={self.built}"
            )
        old = [block for block in self.blocks for _ in range(groups // len(self.blocks))]
        blocks = [nameless(serialize(block)) for block in old]
        config = {**self.get_config(), "blocks": blocks, "depth": len(self.applied)}
        other = type(self).from_config(config)
        other.build_from_config(self.get_build_config())
        for mine, its in zip(old, other.blocks, strict=True):
            its.set_weights(mine.get_weights())
        if self.final_norm is not None:
            other.final_norm.set_weights(self.final_norm.get_weights())
        return other


def _blocks_of(kind: type, blocks: Any) -> list[Any]:
    if not isinstance(blocks, Sequence) or not blocks:
        raise ValueError(
            f"`blocks` must be a list of at least one {kind.__name__}. Received: blocks={blocks!r}"
        )
    layers = [deserialize(block) for block in blocks]
    for block in layers:
        if not isinstance(block, kind):
            raise TypeError(
                f"`blocks` must be {kind.__name__}s or their configs. "
                f"Received: {block!r} of type {type(block).__name__}"
            )
    return layers
