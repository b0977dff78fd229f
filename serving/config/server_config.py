"""How one server is set up: the options of `recsys-attn serve`, with their defaults.

Names and defaults are TensorFlow Serving's where it has them.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

MAX_PORT = 65535
INT32_MAX = 2**31 - 1
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# Health waits up to 0.1 s for what Python does at one go with a JSON body of that size.
_REST_BYTES = 4 * 2**20
_MOST_REQUESTS = 1000  # a thread each, while they are served and while they wait
_BATCHING_THREADS = 128  # they wait for their batch; few of them compute


def _option(
    default: Any, text: str, low: float | None = None, high: float | None = None, **more: Any
) -> Any:
    """A field, with what the command line says of it."""
    return field(default=default, metadata={"help": text, "low": low, "high": high, **more})


@dataclass(frozen=True)
class ServerConfig:
    """The options of a server. `recsys-attn serve --help` says what each is; so does `help`.

    Raises:
        ValueError: A value is out of range, or two of them do not go together.

    Example:
        ServerConfig("/models/ctr", port=8500, enable_batching=True)
    """

    model_base_path: str = _option(
        "", "Folder that holds one numbered folder a version, such as DIR/1/saved_model.pb."
    )
    model_name: str = _option("", "Name that requests ask for; where not given, the folder's name.")
    model_config_file: str = _option(
        "",
        "Text proto ModelServerConfig: several models, their versions and labels; then "
        "--model-base-path and --model-name do not count.",
    )
    model_config_file_poll_wait_seconds: float = _option(
        0.0, "Time between two looks at the model config file; 0 looks once.", 0
    )
    file_system_poll_wait_seconds: float = _option(
        1.0, "Time between two looks for a new version; 0 looks once, below 0 never."
    )
    num_load_threads: int = _option(0, "Models loaded at once; 0: one after the other.", 0)
    max_num_load_retries: int = _option(
        5, "How often a version that fails is tried again; with `backend` for ever.", 0
    )
    load_retry_interval_micros: int = _option(60_000_000, "Time between two such tries.", 0)
    allow_version_labels_for_unavailable_models: bool = _option(
        False, "Whether a new label may name a version that is not loaded yet."
    )
    shadow: str = _option(
        "",
        "MODEL:VERSION:SHARE, or MODEL:LABEL:SHARE: that version scores a share of the model's "
        "requests too, and the differences are reported.",
    )
    compile_after_seconds: float = _option(
        2.0,
        "Time that requests of one shape have taken in TensorFlow, after which XLA compiles it, "
        "of signatures that take lists; 0: never.",
        0,
    )
    tensorflow_intra_op_parallelism: int = _option(
        0, "Threads that one operation is spread over; 0: as many as cores.", 0
    )
    tensorflow_inter_op_parallelism: int = _option(
        0, "Operations of TensorFlow computed at once; 0: as many as cores.", 0
    )
    backend: str = _option(
        "", "grpc://HOST:PORT[,HOST:PORT], or grpcs://: a fleet of TensorFlow Serving computes."
    )
    backend_tls_ca: str = _option(
        "", "PEM file: with grpcs:// trust these authorities, not those that come with gRPC."
    )
    backend_tls_cert: str = _option("", "PEM file: the certificate to show to a backend.")
    backend_tls_key: str = _option("", "PEM file: private key of backend_tls_cert.")
    backend_tls_server_name: str = _option(
        "", "Name in the backend's certificates, if not the host."
    )
    backend_token_file: str = _option("", "File with the token to send to a backend of grpcs://.")
    host: str = _option("127.0.0.1", "Address to listen on.")
    port: int = _option(8500, "Port for gRPC; 0 takes a free one.", 0, MAX_PORT)
    grpc_socket_path: str = _option("", "Unix socket for gRPC, beside the port.")
    grpc_channel_arguments: str = _option("", "KEY=VALUE,...: arguments of gRPC's own.")
    grpc_max_threads: int = _option(
        0, f"Requests answered at once; 0: 4 x CPUs, or {_BATCHING_THREADS} with batching.", 0
    )
    rest_api_port: int = _option(
        0, "Port for REST and metrics, 8501 in TensorFlow Serving's images; 0: none.", 0, MAX_PORT
    )
    rest_api_max_body_bytes: int = _option(
        _REST_BYTES, "Largest body of a REST request, as sent and as unpacked.", 1, INT32_MAX
    )
    rest_api_timeout_in_ms: int = _option(30_000, "Time that a REST request may take.", 1)
    enable_batching: bool = _option(False, "Whether requests are computed together.")
    batching_parameters_file: str = _option("", "Text proto BatchingParameters.")
    enable_per_model_batching_parameters: bool = _option(
        False, "Whether a version's own batching_params.pbtxt is read."
    )
    enable_model_warmup: bool = _option(True, "Whether a version's warm-up file is replayed.")
    num_request_iterations_for_warmup: int = _option(1, "How often; 0 is once too.", 0)
    enable_grpc_healthcheck_service: bool = _option(
        True, "Whether gRPC's standard health service answers."
    )
    ssl_config_file: str = _option("", "Text proto SSLConfig: TLS, and TLS of the clients.")
    auth_token_file: str = _option("", "File with the tokens, one a line, one of which is needed.")
    reload_token_file: str = _option(
        "",
        "File with the tokens, one a line, one of which a reload by RPC needs; they do for every "
        "other call too. A token of auth_token_file does not do for a reload then.",
    )
    allow_reload: bool = _option(
        False,
        "Whether whoever may ask for scores may also reload by RPC, where there is no "
        "reload_token_file. On a loopback host this is so anyway.",
    )
    reload_root: str = _option(
        "",
        "DIR[,DIR]: folders below which a reload by RPC may name base paths, beside the "
        "configured base paths and what is below those.",
    )
    allow_insecure: bool = _option(False, "Whether to listen beyond this machine without TLS.")
    monitoring_config_file: str = _option("", "Text proto MonitoringConfig: Prometheus metrics.")
    prediction_log_dir: str = _option("", "Folder for a sampled log of requests and scores.")
    prediction_log_sampling_rate: float = _option(0.01, "Share of the requests in it.", 0, 1)
    prediction_log_max_bytes: int = _option(2**30, "Most bytes in it; the oldest files go.", 1)
    access_log: bool = _option(False, "Whether every request is a line of JSON on standard error.")
    grace_seconds: float = _option(
        30.0, "Time that running requests have to finish after SIGTERM.", 0
    )
    max_message_bytes: int = _option(INT32_MAX, "Largest request and answer of gRPC.", 1, INT32_MAX)
    max_candidates: int = _option(100_000, "Most rows or candidates of a request.", 1)
    max_concurrent_requests: int = _option(
        0,
        "Requests at a time, those that wait included; others are rejected with "
        f"RESOURCE_EXHAUSTED. 0: {_MOST_REQUESTS:,}.",
        0,
    )
    max_connections: int = _option(
        0, "Connections of gRPC; those beyond are closed. 0: any number.", 0
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            _check(one.name, getattr(self, one.name), **one.metadata)
        self._check_models()
        if self.model_base_path and not self.model_name:
            object.__setattr__(self, "model_name", Path(self.model_base_path).resolve().name)
        for name in ("batching_parameters_file", "enable_per_model_batching_parameters"):
            if getattr(self, name) and not self.enable_batching:
                raise ValueError(f"`{name}` needs `enable_batching`.")
        self._check_backend()
        self._check_security()

    def _check_backend(self) -> None:
        given = [one.name for one in fields(self) if one.name.startswith("backend_")]
        given = [name for name in given if getattr(self, name)]
        if given and not self.backend_uses_tls:
            raise ValueError(
                f"`{given[0]}` needs a `backend` of grpcs://. Received: backend={self.backend!r}"
            )
        if bool(self.backend_tls_cert) != bool(self.backend_tls_key):
            raise ValueError(
                "`backend_tls_cert` and `backend_tls_key` need each other. Received: "
                f"backend_tls_cert={self.backend_tls_cert!r}, "
                f"backend_tls_key={self.backend_tls_key!r}"
            )

    def _check_models(self) -> None:
        if self.backend and not self.model_config_file:
            if self.model_base_path or not self.model_name:
                raise ValueError(
                    "With `backend`, `model_name` is the model's name there, and there is no "
                    "`model_base_path`. Received: "
                    f"model_name={self.model_name!r}, model_base_path={self.model_base_path!r}"
                )
        elif not self.model_base_path and not self.model_config_file:
            raise ValueError(
                "One of `model_base_path` and `model_config_file` names what is served. "
                "Received: none"
            )
        if self.monitoring_config_file and not self.rest_api_port:
            raise ValueError("`monitoring_config_file` needs `rest_api_port`: metrics are there.")

    def _check_security(self) -> None:
        if self.ssl_config_file or self.allow_insecure or self.is_local:
            return
        raise ValueError(
            f"`host` {self.host} can be reached from other machines, and nothing protects what is "
            "sent. Name certificates with `ssl_config_file`, listen on 127.0.0.1, or, where the "
            "network itself is safe, set `allow_insecure`."
        )

    @property
    def address(self) -> str:
        return self.address_of(self.port)

    def address_of(self, port: int) -> str:
        """`host:port`, as gRPC takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return _is_loopback(self.host)

    @property
    def reload_roots(self) -> tuple[Path, ...]:
        """The folders of `reload_root`."""
        return tuple(Path(root) for root in self.reload_root.split(",") if root)

    @property
    def backend_uses_tls(self) -> bool:
        return self.backend.startswith("grpcs://")

    @property
    def most_requests(self) -> int:
        """Requests at a time, those that wait included."""
        return self.max_concurrent_requests or _MOST_REQUESTS

    @property
    def requests_at_once(self) -> int:
        """Requests answered at once."""
        most = max(4 * CPUS, _BATCHING_THREADS) if self.enable_batching else 4 * CPUS
        return self.grpc_max_threads or most


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    **_: Any,
) -> None:
    if (low is not None and value < low) or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value}")
