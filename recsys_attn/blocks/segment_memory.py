"""Transformer-XL's memory: an encoder over one segment of events after the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.blocks.attended import is_mixer
from recsys_attn.blocks.constant_in_training import ConstantInTraining
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.checks import is_whole, require_mask_of, require_positive
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Shape, Tensor


class MemoryState(NamedTuple):
    """The memory that an encoder has of earlier segments.

    Args:
        states: (B, L, M, E), the inputs of each block for the last M events, the latest at the end.
        mask: (B, M), False for places that are still empty.
        user: (B,), the user of each row, int32.
    """

    states: Tensor
    mask: Tensor
    user: Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class SegmentMemory(Layer):
    """Encodes long sequences segment by segment, each with a memory of the ones before.

    `h_l = block_l(h_{l-1}, [SG(m_{l-1}); h_{l-1}])` with the memory `m_{l-1}`, the last M inputs of
    block l from earlier segments, in training without gradient (SG). So L blocks reach L M events
    back, at the cost of S (segment + M) pairs and not of S squared; with a causal pattern, and a
    memory of all earlier events, the output is that of the encoder over the whole sequence.

    The memory is an input and an output of the call, not a variable for each row of the batch:
    so one function serves in training, in `tf.function`, `jax.jit` and an exported model, where
    requests of different users share the variables; and a resumed training needs no more than its
    weights. With `segment` the layer cuts its sequence itself, such as the history of a user, so
    that `fit` needs nothing else. Where the `user` of a row changes, its memory is empty.

    Source: Dai et al., "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
    ACL 2019, arXiv 1901.02860.

    Args:
        encoder: A `TransformerEncoder` whose attention takes a memory, such as `"transformer_xl"`
            or another `Dense`, or its config. Positions inside a segment do not tell segments
            apart: use relative ones, or positions of the whole sequence.
        memory: Number M of events that each block keeps; the paper has one segment in training
            and several in evaluation.
        segment: Number of events of a segment, into which a call cuts its sequence. Defaults to
            none: each call is one segment.

    Call arguments:
        inputs: (B, S, E).
        state: A `MemoryState`, that of the call before. Defaults to an empty one.
        present: (B, S), False for padding, which is not remembered and whose output is zero.
        user: (B,), integers below 2^31; rows whose user is another than before start afresh.
        return_state: Whether to return the new state too.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E), and with `return_state` also the new `MemoryState`.

    Raises:
        TypeError: The attention of a block takes no memory.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import SegmentMemory, TransformerBlock, TransformerEncoder
    >>> blocks = [TransformerBlock(MultiHeadAttention(2, 4, "transformer_xl")) for _ in range(2)]
    >>> encoder = SegmentMemory(TransformerEncoder(blocks), memory=16)
    >>> morning, evening = keras.random.normal((2, 3, 5, 8))
    >>> _, state = encoder(morning, return_state=True)
    >>> output, state = encoder(evening, state, return_state=True)
    >>> tuple(output.shape), tuple(state.states.shape)
    ((3, 5, 8), (3, 2, 16, 8))
    """

    def __init__(
        self, encoder: Any, memory: int, segment: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("memory", memory)
        if segment is not None:
            require_positive("segment", segment)
        self.encoder: Any = deserialize(encoder)
        if not isinstance(self.encoder, TransformerEncoder):
            raise TypeError(
                "`encoder` must be a TransformerEncoder or its config. "
                f"Received: {encoder!r} of type {type(encoder).__name__}"
            )
        if self.encoder.reversible:
            raise TypeError(
                "Reversible blocks keep no states, so there is no memory of them; use "
                "residual='plain'. Received: residual='reversible'"
            )
        for block in self.encoder.blocks:
            _require_memory(block.attention)
        self.memory = memory
        self.segment = segment
        self.constant = ConstantInTraining(dtype=self.dtype_policy)

    @property
    def blocks(self) -> Any:
        """The blocks of the encoder."""
        return self.encoder.blocks

    @property
    def uses_times(self) -> bool:
        """Whether the scores of the blocks read times, which a segment does not have."""
        return self.encoder.uses_times

    def build(self, inputs_shape: Shape) -> None:
        build_part(self, "encoder", self.encoder, inputs_shape)
        self.width = int(inputs_shape[-1] or 0)

    def first_place(self, count: Tensor) -> Tensor:
        """Returns the place (B,) at which the memory of event number `count` (B,) begins.

        It is below 0 while the memory is not full; each call without `segment` is one segment.
        """
        inside = count if self.segment is None else count % self.segment
        return count - inside - self.memory

    def most_events(self, length: int | None) -> int | None:
        """Returns the largest number of events that one attends, of `length`; None for no bound."""
        if self.segment is None:
            return length
        most = self.memory + self.segment
        return most if length is None else min(most, length)

    def initial_state(self, batch_size: Any, events: int | None = None) -> MemoryState:
        """Returns the state before the first segment.

        Args:
            batch_size: B.
            events: Number of events that it keeps, of which a segment attends the last M. Defaults
                to M.
        """
        if not self.built:
            raise ValueError("The size of the state is not known before the layer is called once")
        events = self.memory if events is None else events
        shape = (batch_size, len(self.encoder.applied), events, self.width)
        return MemoryState(
            ops.zeros(shape, self.compute_dtype),
            ops.zeros((batch_size, events), "bool"),
            ops.zeros((batch_size,), "int32"),
        )

    def call(
        self,
        inputs: Tensor,
        state: Any = None,
        present: Tensor | None = None,
        user: Tensor | None = None,
        return_state: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        batch, length = ops.shape(inputs)[:2]
        state = self.initial_state(batch) if state is None else MemoryState(*state)
        if user is not None:
            state = _of_user(state, _checked(user))
        present = ops.ones((batch, length), "bool") if present is None else present
        present = ops.cast(present, "bool")
        if self.segment is None:
            output, state = self._encoded(inputs, present, state)
        elif inputs.shape[1] is None:
            output, state = self._looped(inputs, present, state, self.segment)
        else:
            outputs = []
            for start in range(0, inputs.shape[1], self.segment):
                part = slice(start, start + self.segment)
                output, state = self._encoded(inputs[:, part], present[:, part], state)
                outputs.append(output)
            output = ops.concatenate(outputs, axis=1)
        return (output, state) if return_state else output

    def _encoded(
        self, x: Tensor, present: Tensor, state: MemoryState
    ) -> tuple[Tensor, MemoryState]:
        """Returns the output of one segment, and the state after it."""
        before, memory_present = ops.convert_to_tensor(state.states), ops.cast(state.mask, "bool")
        output, inner = self.encoder(
            x,
            present=present,
            memory=before[:, :, -self.memory :],
            memory_mask=memory_present[:, -self.memory :],
            return_states=True,
        )
        output = ops.cast(output, self.compute_dtype)  # the encoder has its own dtype policy
        inner = ops.cast(self.constant(inner), self.compute_dtype)
        states = ops.concatenate([before, inner], axis=2)
        mask = ops.concatenate([memory_present, present], axis=1)
        # Padding goes first, in order, so that the latest events stand at the end.
        total = ops.shape(mask)[1]
        order = ops.arange(total, dtype="int32") + ops.cast(mask, "int32") * total
        size = memory_present.shape[1]
        latest = ops.argsort(order, axis=1)[:, -size:]
        states = ops.take_along_axis(states, latest[:, None, :, None], axis=2)
        shape = (-1, len(self.encoder.applied), size, self.width)
        mask = ops.reshape(ops.take_along_axis(mask, latest, axis=1), (-1, size))
        return output, MemoryState(ops.reshape(states, shape), mask, state.user)

    def _looped(
        self, x: Tensor, present: Tensor, state: MemoryState, size: int
    ) -> tuple[Tensor, MemoryState]:
        """Returns the output of all segments of a sequence whose length no graph knows."""
        batch, length = ops.shape(x)[:2]
        missing = (-length) % size
        # On TensorFlow, Keras scans one tensor of unknown length, and outputs like the carry.
        marked = ops.concatenate([x, ops.cast(present, x.dtype)[..., None]], axis=-1)
        marked = ops.pad(marked, ((0, 0), (0, missing), (0, 0)))
        segments = ops.reshape(marked, (batch, -1, size, self.width + 1))
        segments = ops.transpose(segments, (1, 0, 2, 3))

        def step(carry: Any, part: Tensor) -> Any:
            memory = MemoryState(carry[1], carry[2], state.user)
            output, memory = self._encoded(part[..., :-1], part[..., -1] > 0, memory)
            carry = output, memory.states, memory.mask
            return carry, carry

        first = ops.zeros((batch, size, self.width), self.compute_dtype)
        final, outputs = ops.scan(step, (first, *state[:2]), segments)
        output = ops.reshape(ops.transpose(outputs[0], (1, 0, 2, 3)), (batch, -1, self.width))
        return output[:, :length], MemoryState(final[1], final[2], state.user)

    def compute_output_spec(
        self,
        inputs: Tensor,
        state: Any = None,
        present: Tensor | None = None,
        user: Tensor | None = None,
        return_state: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        require_mask_of("present", present, inputs)
        if user is not None:
            _checked(user)
        output = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_state:
            return output
        batch, blocks = inputs.shape[0], len(self.encoder.applied)
        shape = (batch, blocks, self.memory, inputs.shape[-1])
        return output, MemoryState(
            keras.KerasTensor(shape, dtype=self.compute_dtype),
            keras.KerasTensor((batch, self.memory), dtype="bool"),
            keras.KerasTensor((batch,), dtype="int32"),
        )


def _of_user(state: MemoryState, user: Tensor) -> MemoryState:
    """Returns the state with an empty memory for rows of another user."""
    user = ops.cast(user, "int32")
    same = ops.equal(user, ops.cast(state.user, "int32"))
    return MemoryState(
        state.states, ops.logical_and(ops.cast(state.mask, "bool"), same[:, None]), user
    )


def _checked(user: Any) -> Tensor:
    if not is_whole(user) or len(user.shape) != 1:
        raise TypeError(
            "`user` must be integers (B,), one for each row, such as the ids of a vocabulary. "
            f"Received: user.shape={tuple(user.shape)}, user.dtype={user.dtype}"
        )
    return user


def _require_memory(attention: Any) -> None:
    """Raises unless attention can attend a memory before its own sequence."""
    mechanism = getattr(attention, "mechanism", None)
    needs_sequence = getattr(mechanism, "own_sequence", False) or getattr(
        mechanism, "causal", False
    )
    if is_mixer(attention) or needs_sequence:
        part = attention if mechanism is None or is_mixer(attention) else mechanism
        raise TypeError(
            f"{type(part).__name__} has one sequence and no memory before it. Use attention with "
            "the mechanism Dense, such as 'transformer_xl', or `Recurrence`, whose state has one "
            "size for any history"
        )
