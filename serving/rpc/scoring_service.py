"""This project's own gRPC service: raw features in, scores out."""

from __future__ import annotations

import grpc

from serving.inference.service import RANK, InferenceService
from serving.protos import scoring_pb2, scoring_pb2_grpc
from serving.rpc.servicers import handle, rpc


class ScoringService(scoring_pb2_grpc.ScoringServiceServicer):
    """Scores and rankings of the candidates of a context."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    @rpc
    def Rank(
        self, request: scoring_pb2.RankRequest, context: grpc.ServicerContext
    ) -> scoring_pb2.RankResponse:
        return handle(self._service, RANK, request, context)
