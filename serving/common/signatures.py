"""Names of signatures, which the exporter uses too."""

DEFAULT_SIGNATURE = "serving_default"
RANK_SIGNATURE = "rank"
EXPLAINED_SIGNATURE = "rank_explained"  # `rank`, with attention and gate weights as outputs
ATTENTION_PREFIX, GATE_PREFIX = "attention/", "gate/"  # of the outputs that explain a score
WITH_CONTEXT = "_with_context"  # suffix of signatures for one context and many Examples
