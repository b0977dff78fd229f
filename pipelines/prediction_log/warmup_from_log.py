"""Writes a warm-up file of logged requests that covers every served batch size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.common.artifacts import atomic_file
from pipelines.common.errors import PipelineError
from pipelines.export.file_list import update_file_list
from pipelines.export.warmup import WARMUP_FILE
from pipelines.prediction_log.bottom_k import BottomK
from pipelines.prediction_log.log_folder import LogFolder
from pipelines.prediction_log.messages import Shape, UnreadableCall, batch_shape, parse, specs
from pipelines.storage.filesystem import Where

MAX_RECORDS = 1000  # TensorFlow Serving refuses a file of more
_SAVED_MODEL = "saved_model.pb"


class Stratum(NamedTuple):
    """Calls with the same kind, signature and batch shape, which cost a server the same."""

    kind: str
    signature: str
    shape: Shape


class WarmupWritten(NamedTuple):
    """The result of writing a warm-up file."""

    path: Path
    records: int
    strata: int  # in the file
    strata_seen: int  # in the log


def warm_up_from_log(
    where: Where, target: Path, requests: int, model: str | None, seed: int
) -> WarmupWritten:
    """Writes a stratified sample of a log's requests as a TFRecord that a server replays.

    Args:
        where: Folder of the log.
        target: A file, or a SavedModel's folder; the manifest of an exported folder is updated.
        requests: Maximum number of requests.
        model: Model name in the log. None: the only one.
        seed: Seed of the sample.

    Raises:
        PipelineError: The log has no usable request, or `target` cannot be written.
    """
    log = LogFolder.open(where)
    name = log.choose_model(model)
    path = _file(target)
    calls: Counter[Stratum] = Counter()
    for entry in log.entries(name):
        stratum = _stratum(entry.log, entry.signature)
        if stratum is not None:
            calls[stratum] += 1
    if not calls:
        raise PipelineError(f"{log.storage.name} has no request of {name!r} that can be replayed.")
    shares = quotas(calls, min(requests, MAX_RECORDS))
    samples = {stratum: BottomK[bytes](share, seed) for stratum, share in shares.items()}
    for entry in log.entries(name):
        stratum = _stratum(entry.log, entry.signature)
        if stratum in samples and samples[stratum].wants(entry.request_id):
            samples[stratum].add(entry.request_id, _request_only(entry.log))
    records = [record for stratum in sorted(samples) for record in samples[stratum].items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, tf.io.TFRecordWriter(str(temporary)) as writer:
        for record in records:
            writer.write(record)
    if path.parts[-len(WARMUP_FILE.parts) :] == WARMUP_FILE.parts:
        update_file_list(path.parents[len(WARMUP_FILE.parts) - 1], path)
    return WarmupWritten(path, len(records), len(samples), len(calls))


def quotas(calls: Counter[Stratum], total: int) -> dict[Stratum, int]:
    """Number of calls of each stratum: at least one, most frequent first, then by share.

    >>> a, b = Stratum("p", "s", (1,)), Stratum("p", "s", (2,))
    >>> list(quotas(Counter({a: 90, b: 10}), 12).values())
    [10, 2]
    """
    most_common = dict(sorted(calls.items(), key=lambda item: (-item[1], item[0]))[:total])
    counts = dict.fromkeys(most_common, 1)
    left, weight = total - len(most_common), sum(most_common.values())
    # Largest remainders of the exact shares; a stratum gives at most all its calls.
    exact = {stratum: left * count / weight for stratum, count in most_common.items()}
    for stratum, count in most_common.items():
        counts[stratum] = min(count, 1 + int(exact[stratum]))
    by_remainder = sorted(most_common, key=lambda stratum: int(exact[stratum]) - exact[stratum])
    while sum(counts.values()) < min(total, weight):
        for stratum in by_remainder:
            if counts[stratum] < most_common[stratum] and sum(counts.values()) < total:
                counts[stratum] += 1
    return counts


def _file(target: Path) -> Path:
    if not target.is_dir():
        return target
    if not (target / _SAVED_MODEL).is_file():
        raise PipelineError(
            f"--output: {target} is a folder without {_SAVED_MODEL}. Name a file, or the folder "
            "of one version of a model, such as export/demo/1."
        )
    return target / WARMUP_FILE


def _stratum(content: bytes, signature: str) -> Stratum | None:
    try:
        kind, log = parse(content)
    except UnreadableCall:
        return None
    return Stratum(kind, signature, batch_shape(kind, log))


def _request_only(content: bytes) -> bytes:
    """The record without its response and version."""
    kind, log = parse(content)
    for spec in specs(kind, log.request):
        spec.ClearField("version")
        spec.ClearField("version_label")
    record = prediction_log_pb2.PredictionLog()
    getattr(record, kind).request.CopyFrom(log.request)
    return record.SerializeToString(deterministic=True)
