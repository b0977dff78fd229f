"""Puts the parts together: one gRPC server, its start, and its end without a lost request."""

from __future__ import annotations

import logging
import queue
import signal
import time
from concurrent import futures
from pathlib import Path
from types import FrameType

import grpc
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving.config import ServerConfig
from serving.errors import Unavailable
from serving.health import Health
from serving.inference import Inference
from serving.interceptors import Refusal
from serving.loading import load_and_warm, start_compute_threads
from serving.manager import ModelManager
from serving.model_config import ModelConfig
from serving.protos import scoring_pb2_grpc
from serving.scoring_service import ScoringService
from serving.servicers import ModelService, PredictionService

_LOGGER = logging.getLogger(__name__)
_REFUSAL_SECONDS = 0.2  # long enough for those who keep calling to hear of it
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server:
    """A bound gRPC server with its models; `create_server` makes it."""

    def __init__(
        self,
        config: ServerConfig,
        grpc_server: grpc.Server,
        manager: ModelManager,
        health: Health,
        refusal: Refusal,
    ) -> None:
        self.config = config
        self.manager = manager
        self._grpc_server = grpc_server
        self._health = health
        self._refusal = refusal

    def start(self) -> None:
        """Answers requests and looks for new versions from now on."""
        self.manager.start(self.config.file_system_poll_wait_seconds)
        self._grpc_server.start()

    def stop(self) -> None:
        """Health turns NOT_SERVING, new requests are refused, running ones get the grace."""
        self._health.drain()
        self._refusal.is_on = True
        time.sleep(_REFUSAL_SECONDS)
        self._grpc_server.stop(self.config.grace_seconds).wait()
        self.manager.stop()


def create_server(config: ServerConfig) -> tuple[Server, int]:
    """A server that is bound and has loaded what there is to load, and its port.

    It does not answer yet (`Server.start`), and it need not have found a version: it serves
    one that comes later, and is NOT_SERVING until then.

    Raises:
        Unavailable: The address cannot be listened on.
    """
    health, refusal = Health(), Refusal()
    manager = ModelManager(
        [ModelConfig(config.model_name, Path(config.model_base_path))], load_and_warm, health.report
    )
    inference = Inference(manager)
    grpc_server = grpc.server(
        futures.ThreadPoolExecutor(config.workers, thread_name_prefix="rpc"),
        interceptors=[refusal],
        options=[
            ("grpc.max_receive_message_length", config.max_message_bytes),
            ("grpc.max_send_message_length", config.max_message_bytes),
            ("grpc.so_reuseport", 0),  # a taken port is an error, not half of the requests
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(inference), grpc_server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(inference), grpc_server)
    scoring_pb2_grpc.add_ScoringServiceServicer_to_server(ScoringService(inference), grpc_server)
    health_pb2_grpc.add_HealthServicer_to_server(health, grpc_server)
    try:
        port = grpc_server.add_insecure_port(config.address)
    except RuntimeError as error:
        raise Unavailable(
            f"Cannot listen on {config.address}: the port is taken or the host is not this "
            "machine's. Choose another port or host."
        ) from error
    start_compute_threads()
    manager.poll()
    return Server(config, grpc_server, manager, health, refusal), port


def serve(server: Server) -> None:
    """Serves until SIGTERM or SIGINT, then drains. To be called in the main thread."""
    received: queue.SimpleQueue[int] = queue.SimpleQueue()  # its put may interrupt itself

    def remember(signum: int, frame: FrameType | None) -> None:
        received.put(signum)

    previous = {number: signal.signal(number, remember) for number in _SIGNALS}
    server.start()
    name = signal.Signals(received.get()).name
    _LOGGER.info("%s: draining for at most %g s", name, server.config.grace_seconds)
    signal.signal(signal.SIGINT, previous[signal.SIGINT])  # the impatient press Ctrl-C twice
    server.stop()
