"""Names of the gRPC services, for code that imports none of them."""

from __future__ import annotations

HEALTH_SERVICE = "grpc.health.v1.Health"
MODEL_SERVICE = "tensorflow.serving.ModelService"
PREDICTION_SERVICE = "tensorflow.serving.PredictionService"
SCORING_SERVICE = "recsys_attn.serving.ScoringService"
STATE_SERVICE = "recsys_attn.serving.StateService"
