"""The names under which Keras saves the classes of this package.

A module registers its classes when it is imported. Before that a stand-in imports the package when
Keras loads an object of one of its classes, so that `import recsys_attn` is enough to load a model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_PACKAGES = "attention interactions models multitask objectives optimizers losses"

NAMES = [
    "AdaptiveTransfer",
    "Attention",
    "AttentionGate",
    "AttentionPooling",
    "AttentionalGru",
    "AttentionalPairs",
    "AutoInt",
    "AveragedHeads",
    "Balance",
    "BilinearFusion",
    "BilinearInteraction",
    "Both",
    "CandidateCrossentropy",
    "CompressedInteraction",
    "ConditionalNorm",
    "ConstantInTraining",
    "ContextGate",
    "ControlTokens",
    "CrossFieldGate",
    "CrossNetwork",
    "Dice",
    "Disagreement",
    "Dropout",
    "EncodedHistory",
    "EulerInteraction",
    "EventEncoder",
    "Experts",
    "FactorizationMachine",
    "FactorizedDense",
    "FeatureEmbedding",
    "FeedForward",
    "FieldGate",
    "FieldInteraction",
    "Film",
    "GateUnit",
    "GatedFields",
    "GatedTowers",
    "Heads",
    "InputGate",
    "InteractingLayer",
    "InterestEvolution",
    "InterestExtractor",
    "InterestHistory",
    "InverseSqrtDecay",
    "ItemScores",
    "LazyAdagrad",
    "LazyAdam",
    "LossScale",
    "MMoE",
    "MaskBlock",
    "MaskNetwork",
    "MaxHistory",
    "MeanHistory",
    "Mlp",
    "MultiHeadAttention",
    "OrderPenalty",
    "PairProducts",
    "PrependTokens",
    "ProbabilityChain",
    "ProgressiveExperts",
    "RankingModel",
    "RowWiseAdagrad",
    "SegmentAttention",
    "SegmentMemory",
    "SequenceModel",
    "SessionHistory",
    "SessionInterests",
    "Split",
    "SqueezeExcitation",
    "Stream",
    "Streams",
    "Sublayer",
    "TargetAttention",
    "TargetSequence",
    "TaskEmbeddingExperts",
    "TaskHeads",
    "Tower",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderBlock",
    "TransformerEncoder",
    "TwoStreamEncoder",
    "WarmUp",
    "compressors.Chain",
    "compressors.Convolution",
    "compressors.LowRank",
    "compressors.Pool",
    "compressors.Segments",
    "decays.FixedDecay",
    "decays.ForgetGate",
    "feature_maps.Elu",
    "feature_maps.Favor",
    "feature_maps.Fourier",
    "feature_maps.Softmax",
    "feature_maps.Taylor",
    "gates.HardConcrete",
    "gates.OutputGate",
    "item_losses.BinaryCrossEntropy",
    "item_losses.Bpr",
    "item_losses.GeneralisedBce",
    "item_losses.SampledSoftmax",
    "item_losses.Softmax",
    "mechanisms.Compressed",
    "mechanisms.Dense",
    "mechanisms.Disentangled",
    "mechanisms.HeadGroups",
    "mechanisms.Linear",
    "mechanisms.Retrieved",
    "mechanisms.Routed",
    "mixers.ConvolutionMixer",
    "mixers.FourierMixer",
    "mixers.GatingMixer",
    "mixers.RecurrentMixer",
    "mixers.TokenMixer",
    "pair_values.TimeIntervalValues",
    "patterns.And",
    "patterns.Block",
    "patterns.Causal",
    "patterns.Dilated",
    "patterns.EdgeBlocks",
    "patterns.Fixed",
    "patterns.Full",
    "patterns.Global",
    "patterns.Local",
    "patterns.Not",
    "patterns.Or",
    "patterns.PerHead",
    "patterns.Prefix",
    "patterns.Prepended",
    "patterns.RandomBlocks",
    "patterns.Strided",
    "positions.AlibiPositions",
    "positions.AxialPositions",
    "positions.BucketPositions",
    "positions.CoordinatePositions",
    "positions.LearnedPositions",
    "positions.NoPositions",
    "positions.RotaryPositions",
    "positions.SinusoidalPositions",
    "positions.TimeBucketPositions",
    "positions.TimeIntervalPositions",
    "positions.TransformerXlPositions",
    "residuals.DeepNorm",
    "residuals.Gated",
    "residuals.GruGate",
    "residuals.Plain",
    "residuals.ReZero",
    "residuals.Reversible",
    "residuals.TFixup",
    "routers.Blocks",
    "routers.KMeans",
    "routers.Lsh",
    "routers.Sinkhorn",
    "scores.Additive",
    "scores.Alibi",
    "scores.Cosine",
    "scores.DenseSynthesizer",
    "scores.Dot",
    "scores.FactorisedDenseSynthesizer",
    "scores.FactorisedRandomSynthesizer",
    "scores.General",
    "scores.KeyOnly",
    "scores.Location",
    "scores.Mixture",
    "scores.Mlp",
    "scores.QkNorm",
    "scores.RandomSynthesizer",
    "scores.RelativeBuckets",
    "scores.RelativeDot",
    "scores.Rotary",
    "scores.SharedDot",
    "scores.SoftCap",
    "scores.Sum",
    "scores.Temperature",
    "scores.TimeBuckets",
    "scores.TimeIntervals",
    "weightings.AttentionSink",
    "weightings.Entmax",
    "weightings.Gaussian",
    "weightings.Identity",
    "weightings.Sigmoid",
    "weightings.Silu",
    "weightings.Softmax",
    "weightings.TalkingHeads",
    "weightings.TopK",
]


class _Unimported:
    """Stands for a class whose module is not imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def from_config(self, *args: Any, **kwargs: Any) -> Any:
        for package in _PACKAGES.split():
            import_module(f"recsys_attn.{package}")
        return _registered()[self._name].from_config(*args, **kwargs)


def register_names() -> None:
    """Registers a stand-in for each class of the package, now or once Keras is imported."""
    if "keras" in sys.modules:
        for name in (f"recsys_attn>{name}" for name in NAMES):
            _registered().setdefault(name, _Unimported(name))
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _registered() -> dict[str, Any]:
    objects: dict[str, Any] = sys.modules["keras"].saving.get_custom_objects()
    return objects


class _KerasLoader(SourceFileLoader):
    """Registers the names at the end of the import of Keras, which takes seconds."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        register_names()


class _KerasFinder(MetaPathFinder):
    """Finds Keras as Python does, and leaves a loader of another kind as it is."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == "keras" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _KerasLoader(spec.loader.name, spec.loader.path)
        return spec
