"""The base class of layers, with plain errors."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.checks import unknown_name
from recsys_attn.tensors import Shape

# Arguments of Keras layers; Keras itself warns of the deprecated ones.
_OF_KERAS = {"activity_regularizer", "autocast", "dtype", "name", "trainable"}
_OF_KERAS |= {"batch_input_shape", "batch_shape", "input_dim", "input_dtype", "input_shape"}


class Layer(keras.layers.Layer):
    """A Keras layer with plain errors for unknown arguments and for lists of numbers.

    Attributes:
        elsewhere: Hints for arguments of other layers, by name.

    Example:

    >>> from recsys_attn.layer import Layer
    >>> class Scale(Layer):
    ...     def __init__(self, factor=2.0, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.factor = factor
    ...     def call(self, inputs):
    ...         return self.factor * inputs
    >>> Scale(facto=3.0)
    Traceback (most recent call last):
    TypeError: Scale has no argument `facto`. Valid names: ['factor']. Received: 'facto'. Did you \
mean 'factor'?
    """

    elsewhere: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **kwargs: Any) -> None:
        for name in kwargs.keys() - _OF_KERAS:
            hint = self.elsewhere.get(name)
            known = unknown_name(name, _arguments(type(self)))
            raise TypeError(
                f"{type(self).__name__} has no argument `{name}`"
                f"{': ' + hint if hint else ''}. {known}"
            )
        super().__init__(**kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        require_tensors(self, *args)
        return super().__call__(*args, **kwargs)


def require_tensors(layer: keras.layers.Layer, *arguments: Any) -> None:
    """Raises if an argument is a list of numbers and not a tensor."""
    for value in arguments:
        if isinstance(value, list | tuple) and _holds_numbers(value):
            raise TypeError(
                f"{type(layer).__name__} must be called with tensors, such as NumPy arrays. "
                f"Received: a {type(value).__name__} of numbers; make an array of it with "
                "np.asarray"
            )


def build_part(
    owner: keras.layers.Layer, name: str, part: keras.layers.Layer, *shapes: Shape | None
) -> None:
    """Builds a part of a layer.

    A part with weights belongs to one layer: Keras cannot load a file with a part of two layers,
        and the shapes of the weights depend on the sizes. A part without weights may be shared.

    Args:
        owner: The layer of the part.
        name: The kind of the part, for the error.
        part: The part, perhaps already built.
        shapes: The arguments of its `build`.

    Raises:
        ValueError: It has weights, and belongs to another layer or was built for other sizes.
    """
    if type(part).build is keras.layers.Layer.build:
        return  # without its own `build`, it is built by its first call
    if not part.built:
        part.build(*shapes)
    elif part.weights and not _belongs(part, owner):
        raise ValueError(
            f"The {name} has weights and belongs to one layer; give each layer one of its own, by "
            f"an instance, a name or a config. Received: {part!r}, which another layer holds"
        )
    elif part.weights and not _fits(part, shapes):
        raise ValueError(
            f"The {name} is built, and its weights fit no other sizes; make a new one. Received: "
            f"{part!r}, in a layer with {[tuple(shape) for shape in shapes if shape is not None]}"
        )
    _OWNERS.setdefault(part, weakref.ref(owner))


# A weak reference: Keras would track a strong one as a part of the part.
_OWNERS: weakref.WeakKeyDictionary[keras.layers.Layer, Any] = weakref.WeakKeyDictionary()


def _belongs(part: keras.layers.Layer, owner: keras.layers.Layer) -> bool:
    """Returns whether no other layer has built or owned a part, even if it was deleted."""
    return part not in _OWNERS or _OWNERS[part]() is owner


def _fits(part: keras.layers.Layer, shapes: tuple[Shape | None, ...]) -> bool:
    """Returns whether a copy built for these shapes has weights of the same shapes."""
    other = type(part).from_config(part.get_config())
    other.build(*shapes)
    return [w.shape for w in other.weights] == [w.shape for w in part.weights]


def _arguments(layer: type) -> Iterable[str]:
    parameters = inspect.signature(layer).parameters.values()
    return [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def _holds_numbers(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, Number) and not ops.is_tensor(value)
