"""Reversible residual streams: the gradient recomputes the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from recsys_attn.tensors import Tensor

_BACKEND = keras.backend.backend()
if _BACKEND == "tensorflow":
    import tensorflow as tf
elif _BACKEND == "jax":
    import jax

Update = Callable[[Tensor, Sequence[Any]], Tensor]
Streams = tuple[Tensor, Tensor]


class Step(NamedTuple):
    """One reversible step: `y_1 = x_1 + F(x_2)`, `y_2 = x_2 + G(y_1)`.

    Args:
        first, second: F and G, functions of a stream and of the other tensors. They must return
            the same each time, and change nothing.
        weights: The Keras variables of both.
    """

    first: Update
    second: Update
    weights: Sequence[Any]


def reversible(steps: Sequence[Step], streams: Streams, tensors: Sequence[Any]) -> Streams:
    """Applies steps one after the other; the memory of the gradient does not grow with them.

    From the last outputs the backward pass computes `x_2 = y_2 - G(y_1)` and `x_1 = y_1 - F(x_2)`,
    step by step, and with them the gradients. It costs one more forward pass. On backends other
    than TensorFlow and JAX everything is kept as usual.

    Args:
        steps: The steps.
        streams: x_1 and x_2.
        tensors: Those that all steps get too, such as masks; None for those not given. Gradients
            pass to those of floats.
    """
    if _BACKEND == "tensorflow":
        return _on_tensorflow(steps, streams, tensors)
    if _BACKEND == "jax":
        return _on_jax(steps, streams, tensors)
    return forward(steps, streams, tensors)


def forward(steps: Sequence[Step], streams: Streams, tensors: Sequence[Any]) -> Streams:
    """Returns the streams after all steps; the gradient keeps everything, as usual."""
    first, second = streams
    for step in steps:
        first = first + step.first(second, tensors)
        second = second + step.second(first, tensors)
    return first, second


def _on_tensorflow(steps: Sequence[Step], streams: Streams, tensors: Sequence[Any]) -> Streams:
    indices = [index for index, tensor in enumerate(tensors) if tensor is not None]

    def function(first: Any, second: Any, *values: Any) -> Any:
        known = dict(zip(indices, values, strict=True))
        others = [known.get(index) for index in range(len(tensors))]
        # Its forward pass is on no tape, which would keep everything in eager calls.
        outputs = tf.recompute_grad(lambda one, two: forward(steps, (one, two), others))(
            first, second
        )

        def gradient(*by: Any, variables: Sequence[Any] = ()) -> Any:
            sources = [*values, *variables]
            sums: list[Any] = [None] * len(sources)
            done: list[Any] = list(by)

            def undone(update: Update, at: Any, output: Any, by_at: Any, by_output: Any) -> Any:
                # A graph would else compute all steps again before it needs the first.
                with tf.control_dependencies(done):
                    at = tf.identity(at)
                with tf.GradientTape() as tape:
                    tape.watch([at, *(value for value in values if value.dtype.is_floating)])
                    added = update(at, others)
                more, *others_more = tape.gradient(added, [at, *sources], by_output)
                for index, term in enumerate(others_more):
                    if term is not None:
                        term = tf.convert_to_tensor(term)  # a table has a sparse one
                        sums[index] = term if sums[index] is None else sums[index] + term
                by_at = by_at if more is None else by_at + more
                done[:] = [by_at, *(term for term in others_more if term is not None)]
                return output - added, by_at

            (one, two), (by_one, by_two) = outputs, by
            for step in reversed(steps):
                two, by_one = undone(step.second, one, two, by_one, by_two)
                one, by_two = undone(step.first, two, one, by_two, by_one)
            return [by_one, by_two, *sums[: len(values)]], sums[len(values) :]

        return outputs, gradient

    first, second = tf.custom_gradient(function)(*streams, *(tensors[index] for index in indices))
    return first, second


def _on_jax(steps: Sequence[Step], streams: Streams, tensors: Sequence[Any]) -> Streams:
    # All that is differentiated is an argument: JAX has no gradient of what a function closes over.
    def applied(update: Update, weights: Any, block_values: Any, x: Any, others: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(weights, block_values, strict=True))):
            return update(x, others)

    def run(values: Any, streams: Any, others: Any) -> Any:
        first, second = streams
        for step, block_values in zip(steps, values, strict=True):
            first = first + applied(step.first, step.weights, block_values, second, others)
            second = second + applied(step.second, step.weights, block_values, first, others)
        return first, second

    def keeping(values: Any, streams: Any, others: Any) -> Any:
        outputs = run(values, streams, others)
        return outputs, (values, outputs, others)

    def gradient(residuals: Any, by: Any) -> Any:
        values, (one, two), others = residuals
        by_one, by_two = by
        floats = [other if _is_float(other) else None for other in others]
        by_values: list[Any] = []
        by_floats = [None if x is None else jax.numpy.zeros_like(x) for x in floats]

        def undone(
            update: Update,
            weights: Any,
            block_values: Any,
            pair: Streams,
            by_at: Any,
            by_output: Any,
        ) -> Any:
            def added(block_values: Any, x: Any, floats: Any) -> Any:
                mixed = [o if f is None else f for f, o in zip(floats, others, strict=True)]
                return applied(update, weights, block_values, x, mixed)

            at, output = pair
            result, backward = jax.vjp(added, block_values, at, floats)
            by_own, more, by_more = backward(by_output)
            for index, term in enumerate(by_more):
                if term is not None:
                    by_floats[index] = by_floats[index] + term
            return output - result, by_at + more, by_own

        for step, block_values in zip(reversed(steps), reversed(values), strict=True):
            parts = step.weights, block_values
            two, by_one, of_second = undone(step.second, *parts, (one, two), by_one, by_two)
            one, by_two, of_first = undone(step.first, *parts, (two, one), by_two, by_one)
            by_values.insert(0, jax.tree.map(jax.numpy.add, of_first, of_second))
        by_others = [_no_gradient(o, f) for o, f in zip(others, by_floats, strict=True)]
        return by_values, (by_one, by_two), by_others

    function = jax.custom_vjp(run)
    function.defvjp(keeping, gradient)
    values = [[weight.value for weight in step.weights] for step in steps]
    return function(values, streams, list(tensors))


def _is_float(x: Any) -> bool:
    return x is not None and jax.numpy.issubdtype(x.dtype, jax.numpy.floating)


def _no_gradient(other: Any, by: Any) -> Any:
    """Returns the gradient of a tensor; JAX wants zeros of a type of their own for integers."""
    if other is None or by is not None:
        return by
    return np.zeros(other.shape, jax.dtypes.float0)
