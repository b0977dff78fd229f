"""The names under which Keras saves the classes of this package, and their modules.

A module registers its classes when it is imported. Before that a stand-in imports the module when
Keras loads an object of one of its classes, so that `import recsys_attn` is enough to load a model.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "recsys_attn"
_KERAS = "keras"

MODULES = {
    "attention.compressors.chain": "compressors.Chain",
    "attention.compressors.convolution": "compressors.Convolution",
    "attention.compressors.low_rank": "compressors.LowRank",
    "attention.compressors.pool": "compressors.Pool",
    "attention.compressors.segments": "compressors.Segments",
    "attention.decays.fixed": "decays.FixedDecay",
    "attention.decays.forget_gate": "decays.ForgetGate",
    "attention.disagreement": "Disagreement",
    "attention.feature_maps.elu": "feature_maps.Elu",
    "attention.feature_maps.favor": "feature_maps.Favor",
    "attention.feature_maps.fourier": "feature_maps.Fourier",
    "attention.feature_maps.softmax": "feature_maps.Softmax",
    "attention.feature_maps.taylor": "feature_maps.Taylor",
    "attention.gates.hard_concrete": "gates.HardConcrete",
    "attention.gates.output": "gates.OutputGate",
    "attention.layers.attention": "Attention",
    "attention.layers.heads": "Heads",
    "attention.layers.multi_head": "MultiHeadAttention",
    "attention.layers.pooling": "AttentionPooling",
    "attention.layers.prepend_tokens": "PrependTokens",
    "attention.layers.segment_attention": "SegmentAttention",
    "attention.layers.two_stream": "TwoStreamEncoder",
    "attention.mechanisms.compressed": "mechanisms.Compressed",
    "attention.mechanisms.dense": "mechanisms.Dense",
    "attention.mechanisms.disentangled": "mechanisms.Disentangled",
    "attention.mechanisms.head_groups": "mechanisms.HeadGroups",
    "attention.mechanisms.linear": "mechanisms.Linear",
    "attention.mechanisms.lookup": "mechanisms.Retrieved",
    "attention.mechanisms.pair_values": "pair_values.TimeIntervalValues",
    "attention.mechanisms.routed": "mechanisms.Routed",
    "attention.patterns.base": "patterns.And patterns.Not patterns.Or",
    "attention.patterns.blocks": "patterns.Block patterns.EdgeBlocks",
    "attention.patterns.per_head": "patterns.PerHead",
    "attention.patterns.random_blocks": "patterns.RandomBlocks",
    "attention.patterns.strided": "patterns.Fixed patterns.Strided",
    "attention.patterns.tokens": "patterns.Global patterns.Prefix patterns.Prepended",
    "attention.patterns.window": "patterns.Causal patterns.Dilated patterns.Full patterns.Local",
    "attention.relative_positions": (
        "positions.AlibiPositions positions.BucketPositions positions.NoPositions "
        "positions.RotaryPositions positions.TransformerXlPositions"
    ),
    "attention.routers.blocks": "routers.Blocks",
    "attention.routers.k_means": "routers.KMeans",
    "attention.routers.lsh": "routers.Lsh",
    "attention.routers.sinkhorn": "routers.Sinkhorn",
    "attention.scores.additive": "scores.Additive",
    "attention.scores.alibi": "scores.Alibi",
    "attention.scores.base": "scores.Sum",
    "attention.scores.cosine": "scores.Cosine",
    "attention.scores.dot": "scores.Dot",
    "attention.scores.factorised_synthesizer": (
        "scores.FactorisedDenseSynthesizer scores.FactorisedRandomSynthesizer"
    ),
    "attention.scores.general": "scores.General",
    "attention.scores.key_only": "scores.KeyOnly",
    "attention.scores.location": "scores.Location",
    "attention.scores.mixture": "scores.Mixture",
    "attention.scores.mlp": "scores.Mlp",
    "attention.scores.qk_norm": "scores.QkNorm",
    "attention.scores.relative_buckets": "scores.RelativeBuckets",
    "attention.scores.relative_dot": "scores.RelativeDot",
    "attention.scores.rotary": "scores.Rotary",
    "attention.scores.shared_dot": "scores.SharedDot",
    "attention.scores.soft_cap": "scores.SoftCap",
    "attention.scores.synthesizer": "scores.DenseSynthesizer scores.RandomSynthesizer",
    "attention.scores.temperature": "scores.Temperature",
    "attention.scores.time_buckets": "scores.TimeBuckets",
    "attention.scores.time_intervals": "scores.TimeIntervals",
    "attention.time_positions": "positions.TimeBucketPositions positions.TimeIntervalPositions",
    "attention.weightings.attention_sink": "weightings.AttentionSink",
    "attention.weightings.entmax": "weightings.Entmax",
    "attention.weightings.gaussian": "weightings.Gaussian",
    "attention.weightings.identity": "weightings.Identity",
    "attention.weightings.sigmoid": "weightings.Sigmoid",
    "attention.weightings.silu": "weightings.Silu",
    "attention.weightings.softmax": "weightings.Softmax",
    "attention.weightings.talking_heads": "weightings.TalkingHeads",
    "attention.weightings.top_k": "weightings.TopK",
    "backend.dropout": "Dropout",
    "blocks.attentional_gru": "AttentionalGru",
    "blocks.constant_in_training": "ConstantInTraining",
    "blocks.control_tokens": "ControlTokens",
    "blocks.decoder": "TransformerDecoder",
    "blocks.decoder_block": "TransformerDecoderBlock",
    "blocks.dice": "Dice",
    "blocks.encoder": "TransformerEncoder",
    "blocks.factorized_dense": "FactorizedDense",
    "blocks.feed_forward": "FeedForward",
    "blocks.film": "ConditionalNorm Film",
    "blocks.gate_unit": "GateUnit",
    "blocks.gating_mixer": "mixers.GatingMixer",
    "blocks.mlp": "Mlp",
    "blocks.position_mixers": "mixers.FourierMixer mixers.TokenMixer",
    "blocks.positions.axial": "positions.AxialPositions",
    "blocks.positions.coordinates": "positions.CoordinatePositions",
    "blocks.positions.learned": "positions.LearnedPositions",
    "blocks.positions.sinusoidal": "positions.SinusoidalPositions",
    "blocks.residuals": (
        "residuals.DeepNorm residuals.Gated residuals.GruGate residuals.Plain residuals.ReZero "
        "residuals.Reversible residuals.TFixup"
    ),
    "blocks.segment_memory": "SegmentMemory",
    "blocks.sequence_mixers": "mixers.ConvolutionMixer mixers.RecurrentMixer",
    "blocks.squeeze_excitation": "SqueezeExcitation",
    "blocks.sublayer": "Sublayer",
    "blocks.transformer": "TransformerBlock",
    "embeddings": "FeatureEmbedding",
    "interactions.attentional_pairs": "AttentionalPairs",
    "interactions.autoint": "AutoInt",
    "interactions.bilinear": "BilinearFusion BilinearInteraction",
    "interactions.compressed_interaction": "CompressedInteraction",
    "interactions.cross_network": "CrossNetwork",
    "interactions.euler": "EulerInteraction",
    "interactions.factorization_machine": "FactorizationMachine PairProducts",
    "interactions.feature_gates": "ContextGate CrossFieldGate",
    "interactions.interacting_layer": "InteractingLayer",
    "interactions.mask_network": "MaskBlock MaskNetwork",
    "interactions.target_attention": "TargetAttention",
    "losses": "CandidateCrossentropy",
    "models.averaged_heads": "AveragedHeads",
    "models.building_blocks": "FieldInteraction TaskHeads",
    "models.encoded_history": "EncodedHistory",
    "models.event_encoder": "EventEncoder",
    "models.fibinet": "Both",
    "models.field_gate": "FieldGate",
    "models.gated_fields": "GatedFields",
    "models.histories": "InterestHistory MaxHistory MeanHistory",
    "models.interests": "InterestEvolution InterestExtractor",
    "models.item_scores": "ItemScores",
    "models.ranking": "RankingModel",
    "models.sequence_model": "SequenceModel",
    "models.session_history": "SessionHistory",
    "models.session_interests": "SessionInterests",
    "models.streams": "Stream Streams",
    "models.target_sequence": "TargetSequence",
    "models.tower": "Tower",
    "multitask.balance": "Balance",
    "multitask.experts": "Experts",
    "multitask.gated_towers": "GatedTowers",
    "multitask.gates": "AttentionGate InputGate",
    "multitask.mmoe": "MMoE",
    "multitask.ordered": "OrderPenalty ProbabilityChain",
    "multitask.progressive": "ProgressiveExperts",
    "multitask.task_embeddings": "TaskEmbeddingExperts",
    "multitask.transfer": "AdaptiveTransfer",
    "objectives.item_losses": "item_losses.Softmax",
    "objectives.sampled_losses": (
        "item_losses.BinaryCrossEntropy item_losses.Bpr item_losses.GeneralisedBce "
        "item_losses.SampledSoftmax"
    ),
    "optimizers.adagrad": "LazyAdagrad RowWiseAdagrad",
    "optimizers.adam": "LazyAdam",
    "optimizers.loss_scale": "LossScale",
    "optimizers.schedules": "InverseSqrtDecay WarmUp",
    "optimizers.split_optimizer": "Split",
}


class _StandIn:
    """Stands for a class whose module is not imported."""

    def __init__(self, name: str, module: str) -> None:
        self._name, self._module = name, module

    def from_config(self, *args: Any, **kwargs: Any) -> Any:
        import_module(self._module)
        return _registered()[self._name].from_config(*args, **kwargs)


def register_names() -> None:
    """Registers a stand-in for each class of the package, now or once Keras is imported."""
    if _KERAS not in sys.modules:
        sys.meta_path.insert(0, _AfterKeras())
        return
    for module, names in MODULES.items():
        for name in names.split():
            full = f"{_PACKAGE}>{name}"
            _registered().setdefault(full, _StandIn(full, f"{_PACKAGE}.{module}"))


def _registered() -> dict[str, Any]:
    objects: dict[str, Any] = sys.modules[_KERAS].saving.get_custom_objects()
    return objects


class _AfterKeras(MetaPathFinder):
    """Registers the names at the end of the import of Keras, which takes seconds."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _KERAS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register_names()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
