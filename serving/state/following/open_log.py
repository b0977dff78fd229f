"""Opens the log of an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.following.folder import FolderLog
from serving.state.following.log import Log
from serving.state.online.writer import StateWriter
from serving.state.stores.store import Store


def open_log(
    url: str,
    definition: StateDefinition,
    store: Store,
    writer: StateWriter,
    known: Mapping[bytes, Mapping[str, int]],
    report: Callable[[str], object],
) -> Log:
    """The log of an address: a folder, or `kafka://BROKER:PORT/TOPIC`.

    Args:
        url: The address.
        definition: The features.
        store: The store, which keeps how far the log was read.
        writer: Adds events to that store.
        known: Names and sizes of files that each group has from `ingest`, by fingerprint.
        report: Prints a sentence about events that are left out.

    Raises:
        DataError: There is no such log, or a package is missing.
    """
    if not definition.groups:
        raise DataError("RUN: the state has static features alone; nothing follows a log.")
    if not url.startswith("kafka://"):
        columns = definition.event_columns.names
        return FolderLog(Path(url), columns, store, writer.reached, known, report)
    try:
        from serving.state.following.kafka import KafkaLog
    except ImportError:
        raise DataError(
            "--from kafka:// needs the package confluent-kafka: `pip install 'recsys-attn[kafka]'`."
        ) from None
    return KafkaLog(url, definition, store, writer.reached, report)
