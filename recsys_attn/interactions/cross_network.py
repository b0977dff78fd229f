"""The cross network of DCN, DCN-V2 and GDCN."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_bool, require_positive, unknown_name
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor

_KINDS = ("matrix", "vector")


@keras.saving.register_keras_serializable(package="recsys_attn")
class CrossNetwork(Layer):
    """Products of a vector's numbers with each other, one order higher with each layer.

    `x_{l+1} = x_0 * f(x_l) + x_l`, where `x_0` is the input and

    - `kind="vector"`: `x_{l+1} = x_0 <w, x_l> + b + x_l` (DCN);
    - `kind="matrix"`: `f(x) = W x + b` (DCN-V2); with a `rank` r, `f(x) = U V^T x + b`; with
    several experts, `f(x) = sum_e p_e (U_e tanh(C_e tanh(V_e^T x)) + b)`, `p = softmax(G x)`;
    - `gated=True`: `f(x) = (W x + b) * sigmoid(W_g x)` (GDCN).

    Sources: Wang et al., "Deep & Cross Network for Ad Click Predictions", ADKDD 2017, arXiv
    1708.05123; Wang et al., "DCN V2", WWW 2021, arXiv 2008.13535; Wang et al., "Towards Deeper,
    Lighter and Interpretable Cross Network for CTR Prediction", CIKM 2023, arXiv 2311.04635.

    Args:
        num_layers: Number of layers; one more order of products with each. 2 to 4 are usual.
        kind: `"matrix"`, or `"vector"`, with D weights a layer in place of D^2.
        rank: Rank r of the matrices, for a wide vector: a quarter of D is usual. Defaults to
            none: full matrices.
        num_experts: Number of low-rank parts, which a softmax mixes for each row.
        gated: Whether a gate of its own weighs each product.

    Call arguments:
        inputs: (..., D).

    Returns:
        (..., D).

    Raises:
        ValueError: A number is not positive, `kind` is unknown, or an option has no effect or no
            meaning with the others.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import CrossNetwork
    >>> tuple(CrossNetwork(rank=2, num_experts=4)(keras.random.normal((2, 3, 20))).shape)
    (2, 3, 20)
    """

    def __init__(
        self,
        num_layers: int = 3,
        kind: str = "matrix",
        rank: int | None = None,
        num_experts: int = 1,
        gated: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_layers", num_layers)
        require_positive("num_experts", num_experts)
        require_bool("gated", gated)
        if kind not in _KINDS:
            raise ValueError(f"`kind` must be a name. {unknown_name(kind, _KINDS)}")
        if rank is not None:
            require_positive("rank", rank)
        if rank is not None and (kind == "vector" or gated):
            raise ValueError(
                "`rank` is that of the matrices of kind='matrix' without gates. Leave it out. "
                f"Received: rank={rank}, kind={kind!r}, gated={gated}"
            )
        if num_experts > 1 and rank is None:
            raise ValueError(
                "Several experts have matrices of low rank. Give `rank`, such as 64. Received: "
                f"num_experts={num_experts}, rank=None"
            )
        if gated and kind == "vector":
            raise ValueError("`gated` needs kind='matrix'. Received: kind='vector', gated=True")
        self.num_layers = num_layers
        self.kind = kind
        self.rank = rank
        self.num_experts = num_experts
        self.gated = gated

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        shapes: dict[str, tuple[int | None, ...]] = {"bias": (size,)}
        if self.kind == "vector":
            shapes["kernel"] = (size, 1)
        elif self.rank is None:
            shapes["kernel"] = (size, size)
        else:
            shapes["down"] = (size, self.num_experts * self.rank)
            shapes["up"] = (self.num_experts * self.rank, size)
        if self.num_experts > 1:
            shapes["between"] = (self.num_experts, self.rank, self.rank)
            shapes["choice"] = (size, self.num_experts)
        if self.gated:
            shapes["gate"] = (size, size)
        self.layers = [
            {
                name: self.add_weight(
                    shape=shape,
                    initializer="zeros" if name == "bias" else "glorot_uniform",
                    name=f"{name}_{index}",
                )
                for name, shape in shapes.items()
            }
            for index in range(self.num_layers)
        ]

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs
        for weights in self.layers:
            if self.kind == "vector":
                x = inputs * held(ops.matmul(x, weights["kernel"])) + weights["bias"] + x
            else:
                x = inputs * held(self._factors(x, weights)) + x
        return x

    def _factors(self, x: Tensor, weights: dict[str, Any]) -> Tensor:
        """Returns f(x) (..., D)."""
        if self.rank is None:
            factors = ops.matmul(x, weights["kernel"]) + weights["bias"]
            if self.gated:
                factors = factors * ops.sigmoid(ops.matmul(x, weights["gate"]))
            return factors
        low = ops.matmul(x, weights["down"])
        if self.num_experts == 1:
            return ops.matmul(low, weights["up"]) + weights["bias"]
        shape = (*ops.shape(x)[:-1], self.num_experts, self.rank)
        low = ops.tanh(ops.reshape(low, shape))
        low = ops.tanh(ops.einsum("...er,ers->...es", low, weights["between"]))
        shares = ops.softmax(ops.matmul(x, weights["choice"]), axis=-1)
        low = low * shares[..., None]  # the products with U_e are linear, so they may come after
        low = ops.reshape(low, (*shape[:-2], self.num_experts * self.rank))
        return ops.matmul(low, weights["up"]) + weights["bias"]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
