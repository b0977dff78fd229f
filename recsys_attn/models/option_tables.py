"""Tables of options that several models have, such as `encoder`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from recsys_attn.models.option_types import (
    Count,
    Encoder,
    EncoderPositions,
    Factor,
    Heads,
    HeadSize,
    Mechanism,
    Names,
    Share,
    Sizes,
    Update,
)
from recsys_attn.options import Table


@dataclass(frozen=True, kw_only=True)
class TargetAttentionOptions(Table):
    """Attention of a candidate to a history.

    Args:
        name: Its mechanism, of `recsys_attn.attention.presets`. The authors' code of DIN has a
            softmax: `{"class_name": "din", "config": {"weighting": "softmax"}}`.
        num_heads: Number of heads, with projections. Defaults to none: no projections, as in DIN.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values. For
            `num_heads` alone. Defaults to 16, in `attention_ranker` to that of the interaction.
    """

    name: Mechanism
    num_heads: Count | None = None
    head_dim: HeadSize | None = None

    def heads(self, size: Any) -> dict[str, Any]:
        """Returns the number and the size of the heads; with heads, the size defaults to `size`."""
        default = None if self.num_heads is None else size
        return {"num_heads": self.num_heads, "head_dim": self.head_dim or default}


@dataclass(frozen=True, kw_only=True)
class EncoderContext(Table):
    """Features of the request, such as the scenario, for an encoder of the history.

    Args:
        features: Names of features with `side="context"`.
        how: `"norm"`, a conditional normalisation in each block; `"film"`, a scale and a shift of
            the events; `"tokens"`, events in front of the others; `"keys"`, keys and values in
            each attention, with projections of their own. `"norm"` and `"film"` start as no
            context and fit every encoder, the others those with attention.

    Example:

    >>> from recsys_attn.models.option_tables import EncoderContext
    >>> EncoderContext.of({"features": ["scenario"], "how": "keys"}).stacked
    True
    """

    features: Names
    how: Literal["norm", "film", "tokens", "keys"]

    @property
    def stacked(self) -> bool:
        """Whether each feature is a vector of its own, and not a part of one condition."""
        return self.how in ("tokens", "keys")


ContextTable: TypeAlias = Annotated[Any, EncoderContext]


@dataclass(frozen=True, kw_only=True)
class EventEncoderOptions(Table):
    """An encoder of events.

    Args:
        name: Attention of events to each other, in Transformer blocks; or another encoder, such as
            `"gru"`, or a block with its options (`recsys_attn.models.encoders`).
        num_layers: Number of blocks.
        num_heads: Number of heads of a block; a pair for grouped queries. Defaults to 2, in
            `attention_ranker` to that of the interaction.
        head_dim: Size of a head; a pair for values of another size than keys. Defaults to 16, in
            `attention_ranker` to that of the interaction.
        positions: How the encoder knows the order of the events: a name or a config of
            `recsys_attn.attention.positions`, such as `"learned"` or `"rotary"`; `"none"` for an
            encoder that is blind to it. Defaults to the positions of the encoder's score where it
            has some, as in `"alibi"`, and else to `"learned"`, counted from the latest event; to
            none where the order matters to the encoder anyway.
    """

    name: Encoder
    num_layers: Count = 1
    num_heads: Heads | None = None
    head_dim: HeadSize | None = None
    positions: EncoderPositions | None = None


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(EventEncoderOptions):
    """An encoder of the events of a history, before target attention.

    Args:
        context: Features of the request for the encoder. Defaults to none.
    """

    context: ContextTable | None = None


@dataclass(frozen=True, kw_only=True)
class InteractionOptions(Table):
    """Attention of fields to each other, in AutoInt's interacting layers.

    Args:
        name: Its mechanism, of `recsys_attn.attention.presets`. Defaults to AutoInt's; in
            `attention_ranker` with the `dropout` of the model.
        num_layers: Number of interacting layers.
        num_heads: Number of heads of each.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
        update: Residual, normalisation and ReLU of the layers, of `FieldUpdate`: the authors' code
            is `{"relu": "projections", "norm": "layer"}` with the mechanism `"transformer"`. Try
            `{"norm": "layer"}` with several layers. Defaults to the paper's.
    """

    name: Mechanism | None = None
    num_layers: Count = 2
    num_heads: Count = 2
    head_dim: HeadSize = 32
    update: Update | None = None


@dataclass(frozen=True, kw_only=True)
class DisentangledOptions(Table):
    """DESTINE's attention of fields to each other.

    Args:
        num_layers: Number of layers of attention.
        num_heads: Number of heads of each.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
        scale: Whether to divide the pairwise logits by the square root of the head size; for large
            heads.
        dropout: Dropout of the attention weights.
    """

    num_layers: Count = 3
    num_heads: Count = 2
    head_dim: HeadSize = 32
    scale: bool = False
    dropout: Share = 0.0


@dataclass(frozen=True, kw_only=True)
class ExpertOptions(Table):
    """Experts shared by the tasks, and their gates.

    Args:
        number: Number of experts.
        units: Hidden units of an expert.
        gate_attention: Mechanism of the gates of attention, of `recsys_attn.attention.presets`.
            Defaults to `"transformer"`.
        balance: Factor of the penalty on experts that are used unequally. Raise it to 0.01 or 0.1
            where an expert has died. Defaults to 0: none.
    """

    number: Count = 8
    units: Sizes = (128, 64)
    gate_attention: Mechanism | None = None
    balance: Factor = 0.0


@dataclass(frozen=True, kw_only=True)
class TaskExpertOptions(Table):
    """Experts of each task beside shared ones.

    Args:
        task: Experts of each task in a layer.
        shared: Shared experts in a layer. More of them for tasks that are much alike.
        units: Hidden units of an expert.
        balance: Factor of the penalty on experts, of the last layer, that are used unequally. Raise
            it to 0.01 or 0.1 where one of them has died. Defaults to 0: none.
    """

    task: Count = 2
    shared: Count = 2
    units: Sizes = (128, 64)
    balance: Factor = 0.0


@dataclass(frozen=True, kw_only=True)
class ProgressiveExpertOptions(TaskExpertOptions):
    """PLE's experts.

    Args:
        num_layers: Layers of experts; 1 is Customized Gate Control (CGC).
    """

    num_layers: Count = 2


@dataclass(frozen=True, kw_only=True)
class EmbeddingExpertOptions(TaskExpertOptions):
    """STEM's experts, and their gates.

    Args:
        gate_units: Hidden units of the gates.
    """

    gate_units: Sizes = (128, 64)


@dataclass(frozen=True, kw_only=True)
class CrossOptions(Table):
    """The cross network.

    Args:
        name: `"matrix"`, DCN-V2; or `"vector"`, DCN, with far fewer weights.
        num_layers: Number of its layers.
        rank: Rank of the matrices, for many fields: a quarter of their total width is usual.
            Defaults to none: full matrices.
        num_experts: Number of low-rank parts, mixed for each row; needs `rank`.
        gated: Whether a gate weighs each product: GDCN.
    """

    name: Literal["matrix", "vector"] = "matrix"
    num_layers: Count = 3
    rank: Count | None = None
    num_experts: Count = 1
    gated: bool = False


@dataclass(frozen=True, kw_only=True)
class FeatureGateOptions(Table):
    """The gates of the inputs of FinalMLP's networks.

    Args:
        first: Features that decide the gates of the first network, such as the user. Defaults to
            none: one gate for all rows.
        second: The same for the second network, such as the item.
        units: Hidden units of the network of a gate whose features are named.
        active: Whether there are gates; DualMLP has none.
    """

    first: Names = ()
    second: Names = ()
    units: Sizes = (64,)
    active: bool = True


TargetAttentionTable: TypeAlias = Annotated[Any, TargetAttentionOptions]
EventEncoderTable: TypeAlias = Annotated[Any, EventEncoderOptions]
EncoderTable: TypeAlias = Annotated[Any, EncoderOptions]
InteractionTable: TypeAlias = Annotated[Any, InteractionOptions]
DisentangledTable: TypeAlias = Annotated[Any, DisentangledOptions]
ExpertTable: TypeAlias = Annotated[Any, ExpertOptions]
ProgressiveExpertTable: TypeAlias = Annotated[Any, ProgressiveExpertOptions]
EmbeddingExpertTable: TypeAlias = Annotated[Any, EmbeddingExpertOptions]
CrossTable: TypeAlias = Annotated[Any, CrossOptions]
FeatureGateTable: TypeAlias = Annotated[Any, FeatureGateOptions]
