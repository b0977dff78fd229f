"""Assembles a server from its parts, starts it, and drains it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent import futures

import grpc

from serving.common.errors import Unavailable
from serving.config.batching import BatchingParameters
from serving.config.files import (
    Certificates,
    read_batching_parameters,
    read_certificates,
    read_metrics_path,
    read_tokens,
)
from serving.config.models import ModelConfig
from serving.config.server_config import CPUS, ServerConfig
from serving.inference.concurrency import ConcurrencyLimit
from serving.inference.service import InferenceService
from serving.models.config_watcher import ConfigWatcher
from serving.models.manager import ModelManager
from serving.models.manager_options import ManagerOptions
from serving.models.reload_roots import ReloadRoots
from serving.models.version_source import FolderSource, VersionSource
from serving.observability.metrics import Metrics
from serving.proxy.source import BackendSource
from serving.rest.app import Rest
from serving.rest.server import RestServer
from serving.rpc.drain import DrainInterceptor
from serving.rpc.health import Health
from serving.rpc.security import Access
from serving.rpc.server import listen, make_grpc_server
from serving.runtimes.load import RuntimeOptions
from serving.server.certificates import report_certificates
from serving.server.loader import Loader, LoadOptions
from serving.server.observers import Observers
from serving.server.ports import bound

_LOGGER = logging.getLogger(__name__)
_NOTICE_SECONDS = 0.2  # time for clients that watch health, or that retry, to go elsewhere


class Server:
    """The models and the ports of a server; use `create_server` to make one."""

    def __init__(
        self,
        config: ServerConfig,
        manager: ModelManager,
        health: Health,
        observers: Observers,
        config_file: ConfigWatcher | None,
        roots: ReloadRoots,
    ) -> None:
        self.config = config
        self.manager = manager
        self.health = health
        limit = ConcurrencyLimit(config.requests_at_once, config.most_requests)
        self.service = InferenceService(manager, observers.all, limit, roots.require)
        self.interceptor = DrainInterceptor(self.service.reject)
        self.grpc: grpc.Server | None = None
        self.rest: RestServer | None = None
        self._observers = observers
        self._config_file = config_file

    def start(self) -> None:
        """Accepts requests, loads the models, and looks for new versions from then on.

        Requests of a model that still loads get UNAVAILABLE. A model without a version is
        NOT_SERVING until a version comes.
        """
        loads = self.config.file_system_poll_wait_seconds >= 0
        if loads:
            self.manager.announce()
        for listener in (self.grpc, self.rest):
            if listener is not None:
                listener.start()
        if loads:
            _load(self.manager)
        self.manager.start(self.config.file_system_poll_wait_seconds)
        if self._config_file is not None and self.config.model_config_file_poll_wait_seconds:
            self._config_file.start(self.config.model_config_file_poll_wait_seconds)

    def drain(self) -> None:
        """Rejects new requests, and gives the running ones `grace_seconds` to finish."""
        self.health.drain()
        self.interceptor.is_draining = True
        time.sleep(_NOTICE_SECONDS)
        stopped = None if self.grpc is None else self.grpc.stop(self.config.grace_seconds)
        if self.rest is not None:
            self.rest.stop()
        if stopped is not None:
            stopped.wait()
        self._observers.close()

    def stop(self) -> None:
        """Drains, and waits for versions that are being loaded."""
        self.drain()
        if self._config_file is not None:
            self._config_file.stop()
        self.manager.stop()


def create_server(config: ServerConfig) -> tuple[Server, int]:
    """Creates a server, binds its ports, and returns it with its gRPC port.

    `Server.start` lets it accept requests and loads its models.

    Raises:
        ServingError: A file of the configuration is not valid, or a port cannot be used.
    """
    certificates = read_certificates(config.ssl_config_file) if config.ssl_config_file else None
    access = _access(config)
    path = read_metrics_path(config.monitoring_config_file) if config.monitoring_config_file else ""
    metrics = Metrics(config.runtime_name) if path else None
    server = _make_server(config, metrics)
    server.grpc = make_grpc_server(
        config, server.service, server.health, server.interceptor, access, metrics
    )
    port = listen(server.grpc, config, config.port, certificates)
    if config.rest_api_port:
        server.rest = _make_rest(config, server, access, certificates, metrics, path or "")
    report_certificates(config, certificates, metrics)
    return server, port


def _access(config: ServerConfig) -> Access:
    scoring, reload = (
        read_tokens(path) if path else frozenset[bytes]()
        for path in (config.auth_token_file, config.reload_token_file)
    )
    return Access(scoring, reload, config.allow_reload or config.is_local)


def _load(manager: ModelManager) -> None:
    """Loads the available versions; an unreachable source is tried again while it serves."""
    try:
        manager.poll()
    except Unavailable as error:
        _LOGGER.warning("%s (NOT_SERVING until one does)", error)


def _make_server(config: ServerConfig, metrics: Metrics | None) -> Server:
    batching = None
    if config.batching_parameters_file:
        batching = read_batching_parameters(config.batching_parameters_file)
    elif config.enable_batching:
        batching = BatchingParameters(
            num_batch_threads=config.tensorflow_inter_op_parallelism or CPUS
        )
    source = _version_source(config)
    loader = Loader(
        LoadOptions(
            source=source,
            batching=batching,
            reads_own_batching=config.enable_per_model_batching_parameters,
            warmup_iterations=(
                max(config.num_request_iterations_for_warmup, 1) * config.enable_model_warmup
            ),
            max_candidates=config.max_candidates,
            warmed=None if metrics is None else metrics.warmed,
        )
    )
    config_file: ConfigWatcher | None = None
    models: tuple[ModelConfig, ...] = ()
    roots = ReloadRoots(config.reload_roots)
    if config.model_config_file:
        config_file = ConfigWatcher(
            config.model_config_file, lambda found: _follow(found, roots, manager)
        )
        models = config_file.read()
        if config.model_base_path:
            _LOGGER.warning("`model_base_path` is ignored: `model_config_file` names the models.")
    else:
        models = (ModelConfig(config.model_name, config.base_path),)
    roots.follow(models)
    health = Health()
    manager = ModelManager(
        models,
        loader,
        health.report,
        options=ManagerOptions(
            max_num_load_retries=config.max_num_load_retries,
            load_retry_interval_seconds=config.load_retry_interval_micros / 1e6,
            allow_version_labels_for_unavailable_models=(
                config.allow_version_labels_for_unavailable_models
            ),
            num_load_threads=config.num_load_threads,
            source=source,
        ),
    )
    observers = Observers(config, manager, metrics)
    return Server(config, manager, health, observers, config_file, roots)


def _version_source(config: ServerConfig) -> VersionSource:
    if config.backend:
        return BackendSource.from_config(config)
    return FolderSource(
        RuntimeOptions(
            config.compile_after_seconds,
            config.tensorflow_intra_op_parallelism,
            config.tensorflow_inter_op_parallelism,
        )
    )


def _follow(models: Sequence[ModelConfig], roots: ReloadRoots, manager: ModelManager) -> None:
    roots.follow(models)
    manager.reload(models)


def _make_rest(
    config: ServerConfig,
    server: Server,
    access: Access,
    certificates: Certificates | None,
    metrics: Metrics | None,
    metrics_path: str,
) -> RestServer:
    rest = Rest(
        server.service,
        futures.ThreadPoolExecutor(config.most_requests, "rest"),
        config.rest_api_timeout_in_ms / 1e3,
        config.rest_api_max_body_bytes,
        lambda: server.health.is_serving,
        lambda: [name for name, one in server.manager.models.items() if one.is_loading],
        lambda: server.interceptor.is_draining,
        access.require,
        None if metrics is None else metrics.page,
        metrics_path,
    )
    address = bound(config.host, config.rest_api_port, "rest_api_port")
    return RestServer(rest, address, certificates, config.grace_seconds)
