"""The options of `recsys-attn serve`, with TensorFlow Serving's names for those it has."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from serving.common.logs import FORMATS
from serving.common.loopback import is_loopback

MAX_PORT = 65535
INT32_MAX = 2**31 - 1
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# Python decodes a JSON body of this size in up to 0.1 s, during which health checks wait.
_REST_BYTES = 4 * 2**20
_MOST_REQUESTS = 1000  # each has a thread while it is computed or waits
_BATCHING_THREADS = 128  # most of them wait for their batch


def _option(
    default: Any,
    text: str,
    low: float | None = None,
    high: float | None = None,
    group: str = "Options",
    choices: tuple[str, ...] = (),
) -> Any:
    """Returns a field with its help text, its range or choices, and its heading in `--help`."""
    metadata = {"help": text, "low": low, "high": high, "group": group, "choices": choices}
    return field(default=default, metadata=metadata)


_versions = functools.partial(_option, group="Advanced: models and versions")
_computation = functools.partial(_option, group="Advanced: batching and computation")
_state = functools.partial(_option, group="Advanced: state of users and items")
_limit = functools.partial(_option, group="Advanced: limits")
_grpc = functools.partial(_option, group="Advanced: gRPC")
_security = functools.partial(_option, group="Advanced: security")
_log = functools.partial(_option, group="Advanced: logs and shadow traffic")
_proxy = functools.partial(_option, group="Advanced: proxy of TensorFlow Serving")


@dataclass(frozen=True)
class ServerConfig:
    """The options of a server; `recsys-attn serve --help` describes each of them.

    Raises:
        ValueError: A value is out of range, or two values exclude each other.

    Example:
        ServerConfig("/models/ctr", port=8500, enable_batching=True)
    """

    model_base_path: str = _option(
        "", "Folder of one model, with a numbered folder for each version: DIR/1/saved_model.pb."
    )
    model_name: str = _option(
        "", "Name of the model in requests. Defaults to the name of its folder."
    )
    model_config_file: str = _option(
        "",
        "Text proto ModelServerConfig: several models, their versions and labels. It replaces "
        "--model-base-path and --model-name.",
    )
    host: str = _option("127.0.0.1", "Address to listen on.")
    port: int = _option(8500, "Port for gRPC; 0 takes a free one.", 0, MAX_PORT)
    rest_api_port: int = _option(
        0,
        "Port for REST and metrics; 0 for none. TensorFlow Serving's images use 8501.",
        0,
        MAX_PORT,
    )
    enable_batching: bool = _option(False, "Compute requests together, in batches.")
    ssl_config_file: str = _option(
        "", "Text proto SSLConfig: the server's certificate and key, and the clients' authority."
    )
    auth_token_file: str = _option(
        "",
        "File of accepted bearer tokens, one per line. Every call must send one of them.",
    )
    monitoring_config_file: str = _option(
        "", "Text proto MonitoringConfig: Prometheus metrics on the REST port."
    )

    model_config_file_poll_wait_seconds: float = _versions(
        0.0, "Seconds between two reads of the model config file; 0 reads it once.", 0
    )
    file_system_poll_wait_seconds: float = _versions(
        1.0, "Seconds between two searches for new versions; 0 searches once, below 0 never."
    )
    num_load_threads: int = _versions(
        0, "Models that load at the same time; 0 loads one after the other.", 0
    )
    max_num_load_retries: int = _versions(
        5, "Retries of a version that fails to load; with --backend there is no limit.", 0
    )
    load_retry_interval_micros: int = _versions(
        60_000_000, "Microseconds between two such retries.", 0
    )
    allow_version_labels_for_unavailable_models: bool = _versions(
        False, "Let a new label name a version that is not loaded yet."
    )
    canary: str = _versions(
        "",
        "MODEL:SHARE: a request that names no version and no label is answered by the label "
        "`canary` for this share of the requests, else by the label `stable`.",
    )
    enable_model_warmup: bool = _versions(True, "Replay the warm-up file of a version.")
    num_request_iterations_for_warmup: int = _versions(
        1, "Number of warm-up passes; 0 and 1 both mean one.", 0
    )

    batching_parameters_file: str = _computation("", "Text proto BatchingParameters.")
    enable_per_model_batching_parameters: bool = _computation(
        False, "Read batching_params.pbtxt from the folder of each version."
    )
    tensorflow_intra_op_parallelism: int = _computation(
        0, "Threads of one TensorFlow operation; 0 for as many as cores.", 0
    )
    tensorflow_inter_op_parallelism: int = _computation(
        0, "TensorFlow operations that run at the same time; 0 for as many as cores.", 0
    )
    compile_after_seconds: float = _computation(
        2.0,
        "Seconds that requests of one shape take before XLA compiles the shape, for `rank` "
        "signatures with lists; 0 never compiles.",
        0,
    )
    user_states: int = _computation(
        0,
        "Users whose states are kept between requests, for each version that has states; 0 for "
        "none.",
        0,
    )

    state: str = _state(
        "",
        "Store of features over time, lmdb:FOLDER or redis://HOST:PORT: requests of `rank` may "
        "then leave out what it knows, and name a user and items alone.",
    )
    state_timeout_ms: float = _state(
        5.0,
        "Milliseconds that a request waits for the store; without an answer its features are "
        "missing.",
        0.1,
    )
    state_max_lag: float = _state(
        0.0,
        "Seconds by which a state may be behind its log when a version begins to serve; 0 for any.",
        0,
    )

    max_concurrent_requests: int = _limit(
        0,
        "Requests that are computed or wait, at most; further ones fail with RESOURCE_EXHAUSTED, "
        f"as those do that would be answered too late. 0 for {_MOST_REQUESTS:,}.",
        0,
    )
    grpc_max_threads: int = _limit(
        0,
        "Requests that are computed at the same time; 0 for the CPUs and one more, 4 x CPUs with "
        f"--backend, or {_BATCHING_THREADS} with batching.",
        0,
    )
    max_candidates: int = _limit(100_000, "Rows or candidates of one request.", 1)
    max_message_bytes: int = _limit(
        INT32_MAX, "Bytes of one gRPC request or response.", 1, INT32_MAX
    )
    rest_api_max_body_bytes: int = _limit(
        _REST_BYTES, "Bytes of one REST request, compressed and decompressed.", 1, INT32_MAX
    )
    rest_api_timeout_in_ms: int = _limit(30_000, "Milliseconds that a REST request may take.", 1)
    grace_seconds: float = _limit(
        30.0, "Seconds that running requests have to finish after SIGTERM.", 0
    )

    grpc_socket_path: str = _grpc("", "Unix socket for gRPC, in addition to the port.")
    grpc_channel_arguments: str = _grpc(
        "", "KEY=VALUE,...: gRPC channel arguments, which replace the server's own."
    )
    enable_grpc_healthcheck_service: bool = _grpc(True, "Offer gRPC's standard health service.")

    allow_insecure: bool = _security(False, "Listen on addresses other than loopback without TLS.")
    reload_token_file: str = _security(
        "",
        "File of bearer tokens, one per line, that allow a reload by RPC. They are accepted for "
        "every other call too; tokens of --auth-token-file no longer allow a reload.",
    )
    push_token_file: str = _security(
        "",
        "File of bearer tokens, one per line, that allow events to be pushed to the store of "
        "--state. They are accepted for every other call but reloads too.",
    )
    allow_push: bool = _security(
        False,
        "Without --push-token-file, let every caller push events. On loopback every caller may "
        "do so anyway.",
    )
    allow_reload: bool = _security(
        False,
        "Without --reload-token-file, let every caller reload by RPC. On loopback every caller "
        "may do so anyway.",
    )
    reload_root: str = _security(
        "",
        "DIR[,DIR]: a reload by RPC may name base paths in these folders, in addition to the "
        "configured base paths and their subfolders.",
    )

    log_format: str = _log(
        FORMATS[0],
        "Format of standard error: lines of text, or each event, error or request one of JSON.",
        choices=FORMATS,
    )
    access_log: bool = _log(False, "Log every request as a line of JSON on standard error.")
    prediction_log_dir: str = _log("", "Folder for a sample of requests and responses.")
    prediction_log_sampling_rate: float = _log(0.01, "Share of the requests to log.", 0, 1)
    prediction_log_max_bytes: int = _log(
        2**30, "Bytes of the log; the oldest files are deleted first.", 1
    )
    shadow: str = _log(
        "",
        "MODEL:VERSION:SHARE or MODEL:LABEL:SHARE: this version scores a share of the requests "
        "too, and metrics report the differences.",
    )

    backend: str = _proxy(
        "",
        "grpc://HOST:PORT[,HOST:PORT] or grpcs://...: TensorFlow Serving servers that compute "
        "instead of this one.",
    )
    backend_tls_ca: str = _proxy(
        "", "PEM file of the authorities to trust. Defaults to those that come with gRPC."
    )
    backend_tls_cert: str = _proxy("", "PEM file of the certificate to send to the backend.")
    backend_tls_key: str = _proxy("", "PEM file of the private key of --backend-tls-cert.")
    backend_tls_server_name: str = _proxy(
        "", "Name in the certificates of the backend. Defaults to the host."
    )
    backend_token_file: str = _proxy("", "File with the bearer token to send to the backend.")

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
        names = [one.name for one in fields(self) if one.name.startswith("backend_")]
        names = [name for name in names if getattr(self, name)]
        if names and not self.backend_uses_tls:
            raise ValueError(
                f"`{names[0]}` needs a `backend` of grpcs://. Received: backend={self.backend!r}"
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
                    "With `backend`, `model_name` must be the name of its model, and "
                    "`model_base_path` must be empty. Received: "
                    f"model_name={self.model_name!r}, model_base_path={self.model_base_path!r}"
                )
        elif not self.model_base_path and not self.model_config_file:
            raise ValueError("Expected `model_base_path` or `model_config_file`. Received: neither")
        if self.canary and not self.model_config_file:
            raise ValueError("`canary` needs `model_config_file`, which has the labels.")
        if self.monitoring_config_file and not self.rest_api_port:
            raise ValueError(
                "`monitoring_config_file` needs `rest_api_port`, which serves the metrics."
            )

    def _check_security(self) -> None:
        if self.ssl_config_file or self.allow_insecure or self.is_local:
            return
        raise ValueError(
            f"`host` {self.host} can be reached from other machines without encryption. Set "
            "`ssl_config_file`, or listen on 127.0.0.1, or set `allow_insecure` if the network "
            "itself is safe."
        )

    @property
    def address(self) -> str:
        return self.address_of(self.port)

    def address_of(self, port: int) -> str:
        """Returns `host:port` in gRPC's form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"

    @property
    def is_local(self) -> bool:
        """Whether the server listens on loopback."""
        return is_loopback(self.host)

    @property
    def reload_roots(self) -> tuple[Path, ...]:
        """Folders of `reload_root`; with a backend all folders, since base paths are not read."""
        if self.backend:
            return (Path("/"),)
        return tuple(Path(root) for root in self.reload_root.split(",") if root)

    @property
    def base_path(self) -> Path:
        """Base path of the model without a model config file; with a backend its addresses."""
        return Path(self.model_base_path or self.backend.partition("://")[2])

    @property
    def runtime_name(self) -> str:
        """The label `runtime` of the metrics."""
        return "remote" if self.backend else "tensorflow"

    @property
    def needs_version_at_start(self) -> bool:
        """Whether each model must have a version before the server starts."""
        return self.file_system_poll_wait_seconds >= 0 and not self.backend

    @property
    def backend_uses_tls(self) -> bool:
        return self.backend.startswith("grpcs://")

    @property
    def most_requests(self) -> int:
        """Requests that are computed or wait."""
        return self.max_concurrent_requests or _MOST_REQUESTS

    @property
    def requests_at_once(self) -> int:
        """Requests that are computed at the same time."""
        if self.grpc_max_threads:
            return self.grpc_max_threads
        if self.enable_batching:
            return max(4 * CPUS, _BATCHING_THREADS)
        return 4 * CPUS if self.backend else CPUS + 1  # one is read while the others compute


def _check(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    **_: Any,
) -> None:
    if choices and value not in choices:
        expected = " or ".join(choices)
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    if (low is not None and value < low) or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value}")
