"""Creates the observers of requests that are enabled in the configuration."""

from __future__ import annotations

import functools
from pathlib import Path

from serving.common.errors import InvalidArgument
from serving.common.request_trace import Observer
from serving.config.server_config import ServerConfig
from serving.models.manager import ModelManager
from serving.observability.access_log import log_access, log_to_standard_error
from serving.observability.metrics import ServerMetrics
from serving.observability.prediction_log.log_files import LogFiles
from serving.observability.prediction_log.logger import PredictionLogger
from serving.observability.shadow import ShadowOptions, ShadowTraffic
from serving.observability.spans import spans_from_environment

_LOST_ROWS = {
    "dropped": "Requests that were not logged: the queue was full.",
    "failed": "Requests that could not be written.",
}


class Observers:
    """The metrics, access log, prediction log and shadow traffic of a server.

    Args:
        config: Enables them.
        manager: Has the version that gets the shadow traffic.
        metrics: The metrics; None if they are disabled.

    Attributes:
        all: Called at the end of each request.
        begin: Called at its start; None without spans.

    Raises:
        InvalidArgument: The folder of the prediction log cannot be created, `shadow` is not valid,
            or there are no metrics to report its differences.
    """

    def __init__(
        self,
        config: ServerConfig,
        manager: ModelManager,
        metrics: ServerMetrics | None,
    ) -> None:
        self.all: list[Observer] = [] if metrics is None else [metrics.observe]
        self._log = self._shadow = self._provider = self._lines = None
        self.begin: Observer | None = None
        if (tracing := spans_from_environment()) is not None:
            spans, self._provider = tracing
            self.begin = spans.begin
            self.all.insert(0, spans.observe)
        if config.access_log:
            self._lines = log_to_standard_error()
            self.all.append(log_access)
        if config.prediction_log_dir:
            self._log = _prediction_log(config)
            self.all.append(self._log.observe)
            for count, text in _LOST_ROWS.items():
                value = functools.partial(getattr, self._log, count)
                if metrics is not None:
                    metrics.gauge(f"prediction_log_{count}", text, value)
        if config.shadow:
            if metrics is None:
                raise InvalidArgument(
                    "`shadow` needs `monitoring_config_file`, since the differences are metrics."
                )
            self._shadow = ShadowTraffic(
                _shadow_options(config), manager, metrics.observe_difference
            )
            self.all.append(self._shadow.observe)

    def close(self) -> None:
        """Finishes writing and comparing; call it after the last request."""
        for observer in (self._shadow, self._log):
            if observer is not None:
                observer.close()
        if self._lines is not None:
            self._lines.stop()
        if self._provider is not None:
            self._provider.shutdown()


def _prediction_log(config: ServerConfig) -> PredictionLogger:
    try:
        files = LogFiles(Path(config.prediction_log_dir), config.prediction_log_max_bytes)
    except OSError as error:
        raise InvalidArgument(
            f"`prediction_log_dir` {config.prediction_log_dir} cannot be written to: "
            f"{error.strerror}."
        ) from error
    return PredictionLogger(files, config.prediction_log_sampling_rate)


def _shadow_options(config: ServerConfig) -> ShadowOptions:
    options = ShadowOptions.parse(config.shadow)
    if not config.model_config_file and options.model != config.model_name:
        raise InvalidArgument(
            f"`shadow` must name the served model, {config.model_name!r}. "
            f"Received: {config.shadow!r}"
        )
    return options
