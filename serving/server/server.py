"""Assembles a server from its parts, starts it, and drains it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from concurrent import futures

from starlette.applications import Starlette

from serving.common.errors import Unavailable
from serving.config.batching import BatchingParameters
from serving.config.canary import CanaryOptions
from serving.config.files import read_batching_parameters, read_metrics_path
from serving.config.models import ModelConfig
from serving.config.server_config import CPUS, ServerConfig
from serving.inference.admission import Admission
from serving.inference.model_states import ModelStates
from serving.inference.service import InferenceService
from serving.models.config_watcher import ConfigWatcher
from serving.models.file_changes import apply_file
from serving.models.manager import ModelManager
from serving.models.manager_options import ManagerOptions
from serving.models.reload_roots import ReloadRoots
from serving.models.version_source import FolderSource, VersionSource
from serving.observability.metrics import ServerMetrics
from serving.proxy.backend_source import BackendSource
from serving.rest.app import Rest
from serving.rpc.services import add_services
from serving.runtimes.load import RuntimeOptions
from serving.server.certificates import report_certificates
from serving.server.listener import Listener
from serving.server.loader import Loader, LoadOptions
from serving.server.observers import Observers
from serving.server.state import open_states

_LOGGER = logging.getLogger(__name__)


class Server:
    """The models of a server, behind its ports; use `create_server` to make one."""

    def __init__(
        self,
        config: ServerConfig,
        listener: Listener,
        manager: ModelManager,
        service: InferenceService,
        observers: Observers,
        config_file: ConfigWatcher | None,
        metrics: ServerMetrics | None,
        states: ModelStates | None,
    ) -> None:
        self.config = config
        self.listener = listener
        self.manager = manager
        self.service = service
        self.states = states
        if metrics is not None:
            for state in ("waiting", "working"):
                metrics.gauge(
                    f"requests_{state}",
                    f"Requests that are {state}.",
                    functools.partial(getattr, service.admission, state),
                )
            if states is not None:
                metrics.gauge("state_bytes", "Bytes that the store uses.", states.size)
        self.rest: Starlette | None = None
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
        else:
            self.listener.health.report({})
        self.listener.open(self.service.reject, self.service.admission, self.rest)
        if loads:
            _load(self.manager)
        self.manager.start(self.config.file_system_poll_wait_seconds)
        if self._config_file is not None and self.config.model_config_file_poll_wait_seconds:
            self._config_file.start(self.config.model_config_file_poll_wait_seconds)

    def drain(self) -> None:
        """Rejects new requests, and gives the running ones `grace_seconds` to finish."""
        self.listener.drain()
        self._observers.close()

    def stop(self) -> None:
        """Drains, and waits for versions that are being loaded."""
        self.drain()
        if self._config_file is not None:
            self._config_file.stop()
        self.manager.stop()
        if self.states is not None:
            self.states.close()


def create_server(config: ServerConfig, listener: Listener | None = None) -> tuple[Server, int]:
    """Creates a server that listens, and returns it with its gRPC port.

    Its requests get UNAVAILABLE until `Server.start`, which loads its models.

    Args:
        config: Its options.
        listener: Its ports, if they listen already.

    Raises:
        ServingError: A file of the configuration is not valid, or a port cannot be used. It no
            longer listens then.
    """
    if listener is None:
        listener = Listener(config)
    try:
        return _assembled(config, listener), listener.port
    except BaseException:
        listener.drain()
        raise


def _assembled(config: ServerConfig, listener: Listener) -> Server:
    path = read_metrics_path(config.monitoring_config_file) if config.monitoring_config_file else ""
    metrics = ServerMetrics(config.runtime_name) if path else None
    server = _make_server(config, listener, metrics)
    add_services(listener.handlers, config, server.service, metrics)
    if listener.rest is not None:
        server.rest = _make_rest(config, server, metrics, path or "").app()
    report_certificates(config, listener.certificates, metrics)
    return server


def _load(manager: ModelManager) -> None:
    """Loads the available versions; an unreachable source is tried again while it serves."""
    try:
        manager.poll()
    except Unavailable as error:
        _LOGGER.warning("%s (health is NOT_SERVING until one answers)", error)


def _make_server(config: ServerConfig, listener: Listener, metrics: ServerMetrics | None) -> Server:
    batching = None
    if config.batching_parameters_file:
        batching = read_batching_parameters(config.batching_parameters_file)
    elif config.enable_batching:
        batching = BatchingParameters(
            num_batch_threads=config.tensorflow_inter_op_parallelism or CPUS
        )
    source = _version_source(config)
    states = open_states(config)
    loader = Loader(
        LoadOptions(
            source=source,
            batching=batching,
            reads_own_batching=config.enable_per_model_batching_parameters,
            warmup_iterations=(
                max(config.num_request_iterations_for_warmup, 1) * config.enable_model_warmup
            ),
            max_candidates=config.max_candidates,
            user_states=config.user_states,
            state=states,
            report_warmup=None if metrics is None else metrics.observe_warmup,
        )
    )
    config_file: ConfigWatcher | None = None
    models: tuple[ModelConfig, ...] = ()
    roots = ReloadRoots(config.reload_roots)
    if config.model_config_file:
        config_file = ConfigWatcher(
            config.model_config_file, lambda configs: _follow(configs, roots, manager)
        )
        models = config_file.read()
        if config.model_base_path:
            _LOGGER.warning("`model_base_path` is ignored: `model_config_file` names the models.")
    else:
        models = (ModelConfig(config.model_name, config.base_path),)
    roots.follow(models)
    names = [model.name for model in models]
    canary = CanaryOptions.parse(config.canary, names) if config.canary else None
    manager = ModelManager(
        models,
        loader,
        listener.health.report,
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
    admission = Admission(config.requests_at_once, config.most_requests)
    service = InferenceService(
        manager, observers.all, admission, roots.require, observers.begin, states, canary
    )
    return Server(config, listener, manager, service, observers, config_file, metrics, states)


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
    apply_file(manager, models)


def _make_rest(
    config: ServerConfig, server: Server, metrics: ServerMetrics | None, metrics_path: str
) -> Rest:
    listener = server.listener
    return Rest(
        server.service,
        futures.ThreadPoolExecutor(config.most_requests, "rest"),
        config.rest_api_timeout_in_ms / 1e3,
        config.rest_api_max_body_bytes,
        lambda: listener.health.is_serving,
        lambda: [name for name, one in server.manager.models.items() if one.is_loading],
        lambda: listener.is_draining,
        listener.access.require,
        listener.access.require_push,
        None if metrics is None else metrics.page,
        metrics_path,
    )
