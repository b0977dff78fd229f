"""The options of a model manager."""

from __future__ import annotations

from dataclasses import dataclass, field

from serving.models.version_source import FolderSource, VersionSource


@dataclass(frozen=True)
class ManagerOptions:
    """How versions are found and loaded; names and defaults are TensorFlow Serving's.

    Args:
        max_num_load_retries: Attempts to load a version after the first one failed. A change in
            its folder allows as many again. A backend's versions are tried without a limit.
        load_retry_interval_seconds: Time between two attempts.
        allow_version_labels_for_unavailable_models: Whether a reload may give a new label to a
            version that is not available yet. An existing label moves only to available versions.
        num_load_threads: Threads that load several models at once; 0 loads one after the other.
        source: The source of the versions.

    Example:
        >>> options = ManagerOptions(max_num_load_retries=2, load_retry_interval_seconds=10.0)
    """

    max_num_load_retries: int = 5
    load_retry_interval_seconds: float = 60.0
    allow_version_labels_for_unavailable_models: bool = False
    num_load_threads: int = 0
    source: VersionSource = field(default_factory=FolderSource)
