"""The base class of mechanisms, and their registry."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention.core import mask_checks
from recsys_attn.attention.core.head_layout import (
    broadcast_batch,
    logits_shape,
    require_a_value_a_key,
)
from recsys_attn.attention.core.masks import MASK_ARGUMENTS, Masks
from recsys_attn.attention.core.watching import HeadsCall, visited, visiting, visitor
from recsys_attn.attention.mechanisms.contract import require_contract
from recsys_attn.backend.tracing import is_traced
from recsys_attn.layer import Layer, is_users, layers_in, require_tensors
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Mechanism(Layer):
    """The way attention is computed: from query, key, value and masks of each head to its output.

    A subclass implements `call(query, key, value, masks)`. It is called either with a `Masks`
    record, as the layers around a mechanism do, or with the arguments that such a layer takes
    (`query_mask`, `key_mask`, `attention_mask`, `attention_bias`, `query_positions`,
    `key_positions`), which are checked and become the record.

    Attributes:
        contract: The promise of each mechanism, for errors.
        honours: The arguments that the mechanism looks at, by name. A call with another is an
            error, because an ignored mask would leak the future or padding; without `query_mask`
            the outputs of padded queries become zeros after the call.
        returns_weights: Whether it returns the weight of each pair at every call.
        weights_on_request: Whether it returns weights, in a form of its own, when a call asks for
            them by `return_weights`.
        positional: Whether it uses positions.
        uses_times: Whether these are times. `call` gets them as `query_times` and `key_times` of
            the masks then, and the places are the default ones.
        reads_columns: Whether the result depends on the columns of the keys, so that padding must
            stand behind them.
        is_causal: Whether no query attends a later key.
        own_sequence: Whether it is self-attention only: key and query are one tensor.
        uses_query, uses_key: Whether it uses the content of queries or keys; if not, the layer
            around it makes no projection of them.
        shares_query_and_key: Whether queries and keys have one projection.
        projections: Number of projections of queries, keys and values that the layer around it
            makes; they stand side by side in each head.
        unary_size: Number of channels at the end of each key that no query meets, such as the
            logit of a unary term; the layer around it projects them beside the others.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`; a field that was not given is None.
        return_weights: Whether to return weights; given to `call` only where `weights_on_request`.

    Returns:
        The output of each head (B, T, N, V), and the weights (B, N, T, S), a `SparseWeights`, a
        `SummaryWeights` or None.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.attention.mechanisms import Mechanism
    >>> class MeanOfAll(Mechanism):
    ...     honours = ("key_mask",)
    ...     def call(self, query, key, value, masks):
    ...         if masks.key is not None:
    ...             value = value * keras.ops.cast(masks.key, value.dtype)[:, :, None, None]
    ...         mean = keras.ops.mean(value, axis=1, keepdims=True)
    ...         return keras.ops.repeat(mean, query.shape[1], axis=1), None
    >>> tuple(MultiHeadAttention(2, 4, MeanOfAll())(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "gate": "a gate belongs to the layer around, such as MultiHeadAttention",
        "disagreement": "it belongs to the layer around, such as MultiHeadAttention",
    }
    contract = (
        "`honours` names the masks that `call` uses: what they hide reaches no output, and a query "
        "that may attend nothing gets zeros"
    )
    honours: tuple[str, ...] = ()

    @property
    def own_sequence(self) -> bool:
        return False

    @property
    def returns_weights(self) -> bool:
        return False

    @property
    def weights_on_request(self) -> bool:
        return False

    @property
    def positional(self) -> bool:
        return False

    @property
    def uses_times(self) -> bool:
        return False

    @property
    def reads_columns(self) -> bool:
        return False

    @property
    def is_causal(self) -> bool:
        return False

    @property
    def uses_query(self) -> bool:
        return True

    @property
    def uses_key(self) -> bool:
        return True

    @property
    def shares_query_and_key(self) -> bool:
        return False

    @property
    def projections(self) -> int:
        return 1

    @property
    def unary_size(self) -> int:
        return 0

    def __call__(
        self,
        query: Any,
        key: Any,
        value: Any,
        masks: Masks | None = None,
        return_weights: bool = False,
        **others: Any,
    ) -> Any:
        arguments: dict[str, Any] = {}
        for name in MASK_ARGUMENTS:
            if name in others:
                arguments[name] = others.pop(name)
        if masks is None:
            require_tensors(self, query, key, value)
            masks = self.masks_of(query.shape, key.shape, value.shape, **arguments)
        elif arguments or not isinstance(masks, list | tuple):
            raise TypeError(
                "`masks` must be a Masks, and then nothing else is given; or give each mask by "
                f"name, as in key_mask=... Received: {type(masks).__name__}, {sorted(arguments)}"
            )
        present = None
        if "query_mask" not in self.honours:
            present, masks = masks[0], Masks(None, *masks[1:])
        visit = visitor()
        if (return_weights or visit is not None) and self.weights_on_request:
            others["return_weights"] = True
        masks = Masks(*masks)  # a functional model that is read from a file has a plain list
        masks = masks.by_time() if self.uses_times else masks
        if visit is None and present is None:
            return super().__call__(query, key, value, masks=masks, **others)
        with visiting(None):
            output, weights = super().__call__(query, key, value, masks=masks, **others)
        if present is not None:
            output = ops.where(present[:, :, None, None], output, ops.zeros_like(output))
        if visit is None:
            return output, weights
        return visited(visit, HeadsCall(self, value, output, weights, masks))

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        """Creates the weights; the default has none."""

    def call(self, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    def masks_of(
        self, query_shape: Shape, key_shape: Shape, value_shape: Shape, **arguments: Any
    ) -> Masks:
        """Checks the arguments of a call, and returns the record of its masks.

        Args:
            query_shape: (B, T, N, ...).
            key_shape: (B, S, N, ...).
            value_shape: (B, S, N, ...).
            arguments: Masks, bias and positions by name; None for those not given.

        Raises:
            TypeError: The mechanism does not look at one that is given, or its dtype is wrong.
            ValueError: A shape does not fit.
        """
        self._require_use(key_shape, value_shape, arguments)
        return Masks.of(query_shape, key_shape, **arguments)

    def require_fit(
        self, query_shape: Shape, key_shape: Shape, value_shape: Shape, **arguments: Any
    ) -> None:
        """Raises unless `masks_of` takes these; for a symbolic call too."""
        self._require_use(key_shape, value_shape, arguments)
        mask_checks.require_fit(query_shape, key_shape, **arguments)

    def _require_use(self, key_shape: Shape, value_shape: Shape, arguments: dict[str, Any]) -> None:
        for name, value in arguments.items():
            if value is not None:
                self.require_honoured(name)
        require_a_value_a_key(key_shape, value_shape)

    def require_honoured(self, *names: str) -> None:
        """Raises unless the mechanism looks at the arguments of these names."""
        for name in names:
            if name not in (*self.honours, "query_mask"):
                raise TypeError(
                    f"{type(self).__name__} cannot honour `{name}`, since {self.reason(name)}. "
                    "Leave it out, or use the mechanism Dense"
                )

    def reason(self, name: str) -> str:
        """Returns the reason why the mechanism ignores an argument, for an error."""
        if is_users(self):
            return f"`honours` of its class names {self.honours} alone; add it if `call` uses it"
        return "it does not look at every pair of a query and a key"

    def check_contract(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        """Raises if a user's parts break their contract on generated input."""
        users = [part for part in layers_in(self) if is_users(part)]
        if users and not is_traced():
            with visiting(None):
                require_contract(self, users, (query_shape, key_shape, value_shape))

    def require_context(self) -> None:
        """Raises unless keys of a context may stand in front of those of the sequence.

        A mechanism that takes them overrides this, and finds their number in `Masks.context_size`.
        """
        raise TypeError(
            f"{type(self).__name__} cannot attend a context, whose keys are no events of the "
            "sequence. Use the mechanism Dense, or Linear without a decay; or give the context to "
            "the events or the norms (`Film`, norm='conditional')"
        )

    def require_weights(self, purpose: str, on_request: bool = False) -> None:
        """Raises unless the mechanism returns the weights that `purpose` needs.

        Args:
            purpose: Start of the error.
            on_request: Whether weights in the form of a fast mechanism suffice.
        """
        if not (self.returns_weights or (on_request and self.weights_on_request)):
            raise ValueError(
                f"{purpose} needs the weight of each pair, and {type(self).__name__} makes none. "
                "Use the mechanism Dense"
            )

    def require_own_sequence(self, query: Any, *others: Any) -> None:
        """Raises for keys that are not the queries, where a sequence attends to itself.

        Called with the user's own tensors: Keras may have made two tensors of one.
        """
        if self.own_sequence and any(x is not None and x is not query for x in others):
            raise ValueError(
                f"{type(self).__name__} is self-attention, so `query`, `value` and `key` must be "
                "one tensor. For cross-attention use the mechanism Lookup with the same router"
            )

    def require_one_projection(self, layer: str) -> None:
        """Raises if the mechanism needs more projections than the layer makes."""
        if self.projections != 1:
            raise ValueError(
                f"{type(self).__name__} needs {self.projections} projections of queries, keys and "
                f"values, which {layer} does not make. Use MultiHeadAttention"
            )

    def require_distinct_results(self, queries: int, keys: int | None, name: str) -> None:
        """Raises if several learned queries would all get the same result.

        Args:
            queries: Number of learned queries.
            keys: Number of keys, if it is known.
            name: The argument that sets the number of queries, for the error.
        """
        if queries == 1:
            return
        if not self.uses_query:
            part = getattr(self, "score", self)
            raise ValueError(
                f"{type(part).__name__} does not look at the query, so all of several learned "
                "queries would get the same result. Use a mechanism that does, such as 'han' or "
                f"'transformer'. Received: {name}={queries}"
            )

    def as_cross_attention(self) -> Mechanism:
        """Returns the mechanism in its form for cross-attention.

        Raises:
            ValueError: It needs a sequence that attends to itself: it is causal by the order of
                its queries, or takes positions from it.
        """
        name, score = type(self).__name__, type(getattr(self, "score", self)).__name__
        if getattr(self, "causal", False):
            raise ValueError(
                f"With causal=True {name} is self-attention. Here it is cross-attention: the "
                "queries (candidates, tasks, learned queries) come after all keys. Leave `causal` "
                "False. Received: causal=True"
            )
        if self.uses_times:
            raise ValueError(
                "The score reads the times of queries and keys, and the queries (candidates, "
                "tasks, learned queries) have none. Use another score here; times belong to the "
                "positions of an encoder, 'time_buckets' or 'time_intervals'. "
                f"Received: score={score}"
            )
        if self.positional and "query_positions" not in self.honours:
            raise ValueError(
                f"{name} has no positions for the queries of a cross-attention (candidates, tasks, "
                "learned queries), and the score needs positions. Use a score without positions, "
                f"or the mechanism Dense. Received: score={score}"
            )
        return self

    def take_heads(self, keep: Sequence[int]) -> None:
        """Keeps some of the heads of a mechanism that is not built, for `prune_heads`."""
        pattern = getattr(self, "pattern", None)
        if pattern is not None:
            self.pattern = pattern.take_heads(keep)

    def compute_output_spec(
        self, query: Tensor, key: Tensor, value: Tensor, *others: Any, **arguments: Any
    ) -> Any:
        weights_shape = logits_shape(query.shape, key.shape)
        batch = broadcast_batch(weights_shape[0], value.shape[0])
        output_shape = (batch, *query.shape[1:3], value.shape[-1] // self.projections)
        output = keras.KerasTensor(output_shape, dtype=self.compute_dtype)
        if self.returns_weights or arguments.get("return_weights"):
            return output, self.weights_spec(query.shape, key.shape)
        return output, None

    def weights_spec(self, query_shape: Shape, key_shape: Shape) -> Any:
        """Returns the symbolic form of the weights, for queries (B, T, N, H) and keys."""
        return keras.KerasTensor(logits_shape(query_shape, key_shape), dtype=self.compute_dtype)


MECHANISMS = Registry(
    "a mechanism",
    "mechanisms",
    Mechanism,
    hint="A score, a pattern, a weighting or a router is an argument of one, as in Dense(score)",
)


def with_presets() -> Registry:
    """Returns the registry of mechanisms and presets."""
    return replace(
        MECHANISMS,
        kind="a mechanism or a preset",
        members=ChainMap[str, Any](MECHANISMS.reserved, MECHANISMS.members),
    )
