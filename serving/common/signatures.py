"""Names of signatures that an exporter and a server agree on; `manifest.json` has no other."""

DEFAULT_SIGNATURE = "serving_default"
RANK_SIGNATURE = "rank"
EXPLAINED_SIGNATURE = "rank_explained"  # `rank`, with attention and gate weights as outputs
WITH_CONTEXT = "_with_context"  # suffix of a signature that takes one context and many Examples
