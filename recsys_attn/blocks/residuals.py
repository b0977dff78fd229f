"""Residual connections: how the output of a sublayer meets its input."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.checks import require_number, require_positive
from recsys_attn.constant_factors import held
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Residual(Layer):
    """The base class: a layer that joins the input of a sublayer with its output.

    Attributes:
        placements, with_norm, hint: The uses that the residual is defined for, and the words of the
            error.
        per_block: Number of sublayers of a block, set by the block before it is built.
        stack: Number of blocks of the whole stack, set by the encoder before it is built.

    Call arguments:
        inputs: (B, S, E), the input of the sublayer, before its normalisation.
        update: (B, S, E), its output.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks.residuals import RESIDUALS
    >>> x, update = keras.ops.ones((1, 1, 2)), keras.ops.ones((1, 1, 2))
    >>> [float(RESIDUALS.get(name)(x, update)[0, 0, 0]) for name in ("plain", "rezero")]
    [2.0, 1.0]
    """

    placements: ClassVar[tuple[str, ...]] = ("pre", "post", "sandwich")
    with_norm: ClassVar[tuple[bool, ...]] = (True, False)
    hint: ClassVar[str] = ""
    per_block = 2
    stack = 1

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def require_fit(self, placement: str, normed: bool) -> None:
        """Raises unless the residual is defined for this placement and normalisation."""
        if placement not in self.placements or normed not in self.with_norm:
            raise ValueError(
                f"{type(self).__name__} {self.hint}. "
                f"Received: placement={placement!r}, {'a' if normed else 'no'} normalisation"
            )

    @property
    def initial_gain(self) -> float:
        """The factor of the initial weights of values, outputs and feed-forward networks."""
        return 1.0

    def build(self, inputs_shape: Shape, update_shape: Shape) -> None:
        self.built = True

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        """Returns no Keras mask: the block gives its own to each part."""

    def compute_output_shape(self, inputs_shape: Shape, update_shape: Shape) -> Shape:
        return inputs_shape


RESIDUALS = Registry(
    "a residual",
    "residuals",
    call=("inputs", "update"),
    hint="The inputs and the update of a sublayer are (B, S, E)",
)


@RESIDUALS.register("plain")
class Plain(Residual):
    """`x + F(x)`.

    Args:
        initial_gain: Factor of the initial weights of values, outputs and feed-forward networks.
            Defaults to 1. A smaller one, such as 0.16, which gives a width of 64 the deviation 0.02
            of BERT and GPT, lets a block start near the identity.

    Example:

    >>> import keras
    >>> float(Plain()(keras.ops.ones((1, 1)), keras.ops.ones((1, 1)))[0, 0])
    2.0
    """

    def __init__(self, initial_gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("initial_gain", initial_gain, above=0)
        self._initial_gain = initial_gain

    @property
    def initial_gain(self) -> float:
        return self._initial_gain

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        return inputs + update


@RESIDUALS.register("gated")
class Gated(Plain):
    """`x + sigmoid(W x) * F(x)`, with the x before its normalisation: the block of LiGR.

    Sources: Borisyuk et al., "From Features to Transformers: Redefining Ranking for Scalable
    Impact" (LiGR), 2025, arXiv 2502.03417; over items: Tikhonovich et al., "eSASRec", 2025,
    arXiv 2508.06450.

    Args:
        initial_gain: As in `Plain`.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import residuals
    >>> x = keras.ops.zeros((1, 1, 2))
    >>> float(residuals.Gated()(x, keras.ops.ones((1, 1, 2)))[0, 0, 0])
    0.5
    """

    def build(self, inputs_shape: Shape, update_shape: Shape) -> None:
        self.kernel = self.add_weight(
            shape=(inputs_shape[-1], update_shape[-1]), initializer="glorot_uniform", name="kernel"
        )

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        return inputs + held(ops.sigmoid(ops.matmul(inputs, self.kernel))) * update


@RESIDUALS.register("rezero")
class ReZero(Residual):
    """`x + a F(x)` with one learned number `a` for each sublayer, from 0.

    A new block is the identity, so that deep stacks train without a warm-up; the paper has no
    normalisation.

    Source: Bachlechner et al., "ReZero is All You Need: Fast Convergence at Large Depth",
    UAI 2021, arXiv 2003.04887.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import residuals
    >>> float(residuals.ReZero()(keras.ops.ones((1, 1)), keras.ops.ones((1, 1)))[0, 0])
    1.0
    """

    def build(self, inputs_shape: Shape, update_shape: Shape) -> None:
        self.share = self.add_weight(shape=(), initializer="zeros", name="share")

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        return inputs + ops.cast(self.share, update.dtype) * update


@RESIDUALS.register("reversible")
class Reversible(Residual):
    """Two streams, `y_1 = x_1 + attention(x_2)`, `y_2 = x_2 + feed_forward(y_1)`.

    The inputs of a block follow from its outputs, so that the gradient needs those of the last
    block only: the memory of training does not grow with the depth, and its time by a third. The
    streams start equal, and the encoder returns their mean. Only a `TransformerEncoder` has
    streams, all of whose blocks must have this residual; without dropout and other parts that are
    not the same when they are computed again.

    Sources: Gomez et al., "The Reversible Residual Network", NIPS 2017, arXiv 1707.04585; with
    attention: Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020, arXiv 2001.04451.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> def block():
    ...     return TransformerBlock(MultiHeadAttention(2, 4), residual="reversible")
    >>> encoder = TransformerEncoder([block() for _ in range(12)])
    >>> tuple(encoder(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    placements = ("pre", "sandwich")
    hint = "adds to streams that are not normalised: it needs placement='pre' or 'sandwich'"

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        raise self.one_stream()

    @staticmethod
    def one_stream() -> TypeError:
        """Returns the error of a use with one stream."""
        return TypeError(
            "residual='reversible' has two streams, which only a TransformerEncoder has; give it "
            "the block and call the encoder itself, or choose another residual"
        )


class _OfStack(Residual):
    """A residual whose constants depend on the number of blocks."""

    def __init__(self, depth: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if depth is not None:
            require_positive("depth", depth)
        self.depth = depth

    @property
    def blocks(self) -> int:
        return self.stack if self.depth is None else self.depth

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        return inputs + update


@RESIDUALS.register("deepnorm")
class DeepNorm(_OfStack):
    """`alpha x + F(x)`, for post-norm stacks of hundreds of blocks.

    With K sublayers in the stack (two for each block of an encoder, three for one of a decoder)
    `alpha = K^(1/4)`, and the weights of values, attention's outputs and feed-forward networks
    start smaller by `(4 K)^(-1/4)`. The paper's other constants, for an encoder with a decoder
    behind it, are left out.

    Source: Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022, arXiv 2203.00555.

    Args:
        depth: Number of blocks in the stack. Defaults to those of the encoder; give it where
            blocks are stacked by hand.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import residuals
    >>> x = keras.ops.ones((1, 1))
    >>> float(residuals.DeepNorm(depth=8)(x, x)[0, 0])  # 16 sublayers
    3.0
    """

    placements = ("post",)
    with_norm = (True,)
    hint = "is post-norm with scaled inputs: it needs placement='post' and a normalisation"

    @property
    def initial_gain(self) -> float:
        return float((4 * self.per_block * self.blocks) ** -0.25)

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        return (self.per_block * self.blocks) ** 0.25 * inputs + update


@RESIDUALS.register("tfixup")
class TFixup(_OfStack):
    """`x + F(x)` without normalisation, with smaller initial weights.

    Those of values, attention's outputs and feed-forward networks start smaller by
    `0.67 L^(-1/4)` in an encoder of L blocks, by `(9 L)^(-1/4)` in a decoder. The paper scales the
    embeddings too, with `(9 L)^(-1/4)`: give the model an initializer for them.

    Source: Huang et al., "Improving Transformer Optimization Through Better Initialization",
    ICML 2020.

    Args:
        depth: Number of blocks L in the stack. Defaults to those of the encoder; give it where
            blocks are stacked by hand.

    Example:

    >>> from recsys_attn.blocks import residuals
    >>> residuals.TFixup(depth=16).initial_gain
    0.335
    """

    with_norm = (False,)
    hint = "replaces the normalisation: it needs norm='none'"

    @property
    def initial_gain(self) -> float:
        if self.per_block == 2:
            return float(0.67 * self.blocks**-0.25)
        return float((9 * self.blocks) ** -0.25)


@RESIDUALS.register("gru")
class GruGate(Residual):
    """A GRU whose state is the input of the sublayer: GTrXL's gate.

    `y = relu(F(x))`, `r = sigmoid(W_r y + U_r x)`, `z = sigmoid(W_z y + U_z x - b)`,
    `h = tanh(W_g y + U_g (r * x))`, `output = (1 - z) * x + z * h`

    Source: Parisotto et al., "Stabilizing Transformers for Reinforcement Learning", ICML 2020,
    arXiv 1910.06764.

    Args:
        bias: First value of the learned `b`. A greater one starts closer to the identity.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import residuals
    >>> x = keras.random.normal((2, 5, 8))
    >>> tuple(residuals.GruGate()(x, x).shape)
    (2, 5, 8)
    """

    def __init__(self, bias: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("bias", bias)
        self.bias = bias

    def build(self, inputs_shape: Shape, update_shape: Shape) -> None:
        width = inputs_shape[-1] or 0
        self.update_kernel = self.add_weight(
            shape=(width, 3 * width), initializer=blockwise(3, axis=1), name="update_kernel"
        )
        self.gates_kernel = self.add_weight(
            shape=(width, 2 * width), initializer=blockwise(2, axis=1), name="gates_kernel"
        )
        self.state_kernel = self.add_weight(
            shape=(width, width), initializer="glorot_uniform", name="state_kernel"
        )
        self.gate_bias = self.add_weight(
            shape=(width,), initializer=keras.initializers.Constant(self.bias), name="gate_bias"
        )

    def call(self, inputs: Tensor, update: Tensor) -> Tensor:
        of_update = ops.split(ops.matmul(ops.relu(update), self.update_kernel), 3, axis=-1)
        of_inputs = ops.split(ops.matmul(inputs, self.gates_kernel), 2, axis=-1)
        reset = ops.sigmoid(of_update[0] + of_inputs[0])
        share = ops.sigmoid(of_update[1] + of_inputs[1] - self.gate_bias)
        new = ops.tanh(of_update[2] + ops.matmul(reset * inputs, self.state_kernel))
        return (1 - share) * inputs + share * new
