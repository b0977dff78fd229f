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

# The classes by the prefix of their names.
_CLASSES = {
    "": (
        "AdaptiveTransfer Attention AttentionGate AttentionPooling AttentionalGru AttentionalPairs "
        "AutoInt AveragedHeads Balance BilinearFusion BilinearInteraction Both "
        "CandidateCrossentropy CompressedInteraction ConditionalNorm ConstantInTraining "
        "ContextGate ControlTokens CrossFieldGate CrossNetwork Dice Disagreement Dropout "
        "EncodedHistory EnsembleEmbedding EnsembleTower EulerInteraction EventEncoder Experts "
        "FactorizationMachine FactorizedDense "
        "FeatureEmbedding FeedForward FieldGate FieldInteraction Film GateUnit GatedFields "
        "GatedTowers Heads InputGate InteractingLayer InterestEvolution InterestExtractor "
        "InterestHistory InverseSqrtDecay ItemScores LazyAdagrad LazyAdam LossScale MMoE MaskBlock "
        "MaskNetwork MaxHistory MeanHistory Mlp MultiHeadAttention OrderPenalty PairProducts "
        "PrependTokens ProbabilityChain ProgressiveExperts RankingModel RowWiseAdagrad "
        "SegmentAttention SegmentMemory SequenceModel SessionHistory SessionInterests Split "
        "SqueezeExcitation Stream Streams Sublayer TargetAttention TargetSequence "
        "TaskEmbeddingExperts TaskHeads Tower TransformerBlock TransformerDecoder "
        "TransformerDecoderBlock TransformerEncoder TwoStreamEncoder WarmUp"
    ),
    "compressors": "Chain Convolution LowRank Pool Segments",
    "decays": "FixedDecay ForgetGate",
    "feature_maps": "Elu Favor Fourier Softmax Taylor",
    "gates": "HardConcrete OutputGate",
    "item_losses": "BinaryCrossEntropy Bpr GeneralisedBce SampledSoftmax Softmax",
    "mechanisms": "Compressed Dense Disentangled HeadGroups Linear Retrieved Routed",
    "mixers": "ConvolutionMixer FourierMixer GatingMixer RecurrentMixer TokenMixer",
    "pair_values": "TimeIntervalValues",
    "patterns": (
        "And Block Causal Dilated EdgeBlocks Fixed Full Global Local Not Or PerHead Prefix "
        "Prepended RandomBlocks Strided"
    ),
    "positions": (
        "AlibiPositions AxialPositions BucketPositions CoordinatePositions LearnedPositions "
        "NoPositions RotaryPositions SinusoidalPositions TimeBucketPositions TimeIntervalPositions "
        "TransformerXlPositions"
    ),
    "residuals": "DeepNorm Gated GruGate Plain ReZero Reversible TFixup",
    "routers": "Blocks KMeans Lsh Sinkhorn",
    "scores": (
        "Additive Alibi Cosine DenseSynthesizer Dot FactorisedDenseSynthesizer "
        "FactorisedRandomSynthesizer General KeyOnly Location Mixture Mlp QkNorm RandomSynthesizer "
        "RelativeBuckets RelativeDot Rotary SharedDot SoftCap Sum Temperature TimeBuckets "
        "TimeIntervals"
    ),
    "weightings": "AttentionSink Entmax Gaussian Identity Sigmoid Silu Softmax TalkingHeads TopK",
}
NAMES = [
    f"{prefix}.{name}".removeprefix(".")
    for prefix, names in _CLASSES.items()
    for name in names.split()
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
