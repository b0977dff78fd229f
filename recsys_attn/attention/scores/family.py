"""Every score by its name."""

from functools import partial

from recsys_attn.attention.scores.additive import Additive
from recsys_attn.attention.scores.alibi import Alibi
from recsys_attn.attention.scores.base import Score
from recsys_attn.attention.scores.cosine import Cosine
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.attention.scores.factorised_synthesizer import (
    FactorisedDenseSynthesizer,
    FactorisedRandomSynthesizer,
)
from recsys_attn.attention.scores.general import General
from recsys_attn.attention.scores.key_only import KeyOnly
from recsys_attn.attention.scores.location import Location
from recsys_attn.attention.scores.mixture import Mixture
from recsys_attn.attention.scores.mlp import Mlp
from recsys_attn.attention.scores.relative_buckets import RelativeBuckets
from recsys_attn.attention.scores.relative_dot import RelativeDot
from recsys_attn.attention.scores.rotary import Rotary
from recsys_attn.attention.scores.shared_dot import SharedDot
from recsys_attn.attention.scores.sum import Sum
from recsys_attn.attention.scores.synthesizer import DenseSynthesizer, RandomSynthesizer
from recsys_attn.serialization import Family

get = Family(
    "a score",
    {
        "additive": Additive,
        "alibi": Alibi,
        "cosine": Cosine,
        "dense_synthesizer": DenseSynthesizer,
        "dot": Dot,
        "factorised_dense_synthesizer": FactorisedDenseSynthesizer,
        "factorised_random_synthesizer": FactorisedRandomSynthesizer,
        "general": General,
        "key_only": KeyOnly,
        "location": Location,
        "mixture": Mixture,
        "mlp": Mlp,
        "random_synthesizer": RandomSynthesizer,
        "relative_buckets": RelativeBuckets,
        "relative_dot": RelativeDot,
        "rotary": Rotary,
        "scaled_dot": partial(Dot, scale=True),
        "shared_dot": SharedDot,
        "sum": Sum,
    },
    Score,
).get
