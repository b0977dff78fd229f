"""The base class of layers, with plain errors."""

from __future__ import annotations

import dataclasses
import inspect
import weakref
from collections.abc import Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.checks import unknown_name
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape

# Arguments of Keras layers; Keras itself warns of the deprecated ones.
_OF_KERAS = {"activity_regularizer", "autocast", "dtype", "name", "trainable"}
_OF_KERAS |= {"batch_input_shape", "batch_shape", "input_dim", "input_dtype", "input_shape"}
# The ends of names that the calls of this package give to masks and to integers.
_INTEGERS = ("mask", "present", "allowed", "positions", "ranks", "segments", "times")


class Rematerialised:
    """A base class of layers that `keras.RematScope` calls with their tensors alone.

    JAX makes a traced array of every argument, also of `training` and of a number of keys. A layer
    that changes a state or adds a loss in its call is not recomputed, but its other parts are.
    """

    adds_losses = False

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        layer: Any = self
        if layer.non_trainable_variables or any(
            getattr(part, "adds_losses", False) for part in layers_in(self)
        ):
            return layer_call
        flat = keras.tree.flatten((args, kwargs))
        tensors = [index for index, value in enumerate(flat) if keras.ops.is_tensor(value)]

        def of_tensors(*values: Any) -> Any:
            traced = dict(zip(tensors, values, strict=True))
            every = [traced.get(index, value) for index, value in enumerate(flat)]
            first, named = keras.tree.pack_sequence_as((args, kwargs), every)
            return layer_call(*first, **named)

        parent: Any = super()
        function = parent.rematerialized_call(of_tensors, *args, **kwargs)
        return lambda *_, **__: function(*(flat[index] for index in tensors))


class Layer(Rematerialised, keras.layers.Layer):
    """A Keras layer with plain errors for unknown arguments and for lists of numbers.

    Attributes:
        elsewhere: Hints for arguments of other layers, by name.
        integer_arguments: The arguments of `call` that are masks or integers, for
            `compute_output_shape`, which gives the others the dtype of the computation.

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
    integer_arguments: ClassVar[tuple[str, ...]] = ()

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
        for value in args:
            if isinstance(value, list | tuple):
                require_tensors(self, value)
        return super().__call__(*args, **kwargs)

    def get_config(self) -> Config:
        """Returns the arguments of the constructor, each from the attribute of its name.

        A layer that keeps an argument under another name, or in another form, adds it itself:
        `{**super().get_config(), "dropout": self.hidden.dropout.rate}`.

        Raises:
            NotImplementedError: An argument has no attribute, and the class no `get_config`.
        """
        values = {x: getattr(self, x) for x in _handed_up(type(self)) if hasattr(self, x)}
        missing = [x for x in _arguments(type(self)) if x not in values.keys() | _OF_KERAS]
        if missing and type(self).get_config is Layer.get_config:
            raise NotImplementedError(
                f"{type(self).__name__} has no config: its constructor has the argument "
                f"`{missing[0]}`, and the layer no attribute of this name. Set it there, or add "
                f"the argument in a `get_config`. Received: {self!r}"
            )
        rates = {k: v.rate for k, v in values.items() if isinstance(v, keras.layers.Dropout)}
        return {**super().get_config(), **{k: _plain(v) for k, v in values.items()}, **rates}

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        raise NotImplementedError(
            f"`quantize` leaves {type(self).__name__} and the other layers of recsys_attn as they "
            "are: their matrices are products of several layers at once. It changes the layers of "
            "Keras in the model, such as Dense and Embedding. For less arithmetic set "
            "dtype='mixed_bfloat16'; for a smaller served model, `export.tables` and "
            "`export.tower` of a run"
        )

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        if type(self).compute_output_shape is Layer.compute_output_shape:
            return keras.Operation.compute_output_spec(self, *args, **kwargs)  # by `call`
        return super().compute_output_spec(*args, **kwargs)

    def compute_output_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the shapes of the outputs for those of the inputs.

        Args:
            args: Shapes in the order of the arguments of `call`.
            kwargs: Shapes by the name of an argument, such as `query_shape`.
        """
        shapes = {name.removesuffix("_shape"): shape for name, shape in kwargs.items()}
        shapes |= dict(zip(inspect.signature(self.call).parameters, args, strict=False))
        inputs = {name: _symbol(self, name, shape) for name, shape in shapes.items()}
        # A layer that is not built has no weights for its `call`; building is up to its owner.
        layer = self if self.built else type(self).from_config(self.get_config())
        outputs = layer.compute_output_spec(**inputs) if self.built else layer(**inputs)
        return keras.tree.map_structure(lambda x: None if x is None else tuple(x.shape), outputs)


def _plain(value: Any) -> Any:
    """Returns the form in a config of the value of an argument."""
    if hasattr(value, "get_config"):
        return serialize(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {x.name: _plain(getattr(value, x.name)) for x in dataclasses.fields(value)}
    return keras.activations.serialize(value) if callable(value) else value


def _symbol(layer: Layer, name: str, shape: Any) -> Any:
    """Returns a symbolic tensor of the shape of an argument, or of each of several shapes."""
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        return {key: _symbol(layer, name, item) for key, item in shape.items()}
    if not all(size is None or isinstance(size, int) for size in shape):
        return [_symbol(layer, name, item) for item in shape]
    named = _is_here(type(layer).call) and name.endswith(_INTEGERS)
    integers = named or name in layer.integer_arguments
    return keras.KerasTensor(shape, dtype="int32" if integers else layer.compute_dtype)


def _is_here(part: Any) -> bool:
    """Returns whether a class or a function is one of this package."""
    return str(part.__module__).partition(".")[0] == "recsys_attn"


def require_tensors(layer: keras.layers.Layer, *arguments: Any) -> None:
    """Raises if an argument is a list of numbers and not a tensor."""
    for value in arguments:
        if isinstance(value, list | tuple) and _holds_numbers(value):
            raise TypeError(
                f"{type(layer).__name__} must be called with tensors, such as NumPy arrays. "
                f"Received: a {type(value).__name__} of numbers; make an array of it with "
                "np.asarray"
            )


def layers_in(value: Any) -> Iterator[Any]:
    """Yields a layer and the layers in its public attributes, depth first."""
    if isinstance(value, keras.layers.Layer):
        yield value
        public = [part for name, part in vars(value).items() if not name.startswith("_")]
        for part in public:
            yield from layers_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from layers_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from layers_in(part)


def is_users(part: Any) -> bool:
    """Returns whether the user made a part: its class is neither of this package nor of Keras."""
    return not _is_here(type(part)) and type(part).__module__.partition(".")[0] != "keras"


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
        getattr(part, "check_contract", lambda *_: None)(*shapes)
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


def _handed_up(layer: type) -> list[str]:
    """Returns the arguments of the constructor, and those that it passes on to base classes."""
    names: dict[str, None] = {}
    for kind in layer.__mro__[: layer.__mro__.index(Layer)]:
        if "__init__" in vars(kind):
            names = {**dict.fromkeys(_arguments(kind)), **names}  # those of a base first
            parameters = inspect.signature(kind).parameters.values()
            if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters):
                break
    return [name for name in names if name not in _OF_KERAS]


def _holds_numbers(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, Number) and not ops.is_tensor(value)
