"""Serves an export in this process and logs its responses."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from tensorflow_serving.apis import predict_pb2

from pipelines.export.raw_inputs import Raw, raw_request, raw_rows
from pipelines.export.signatures import WITH_CONTEXT
from pipelines.export.tf_examples import example_request, example_rows
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import request_starts
from pipelines.workflow.steps import Steps
from recsys_attn.schema import Schema
from serving.encoding.codec import encode
from serving.inference.service import replay
from serving.observability.prediction_log.log_files import LogFiles
from serving.observability.prediction_log.logger import PredictionLogger
from tests.serving.exports import load_model
from tests.serving.observability.prediction_log.calls import finished


class Service:
    """One version of a run's export."""

    def __init__(self, steps: Steps) -> None:
        self.folder = steps.run.folder
        self.schema = steps.experiment.model_schema
        self.name = steps.export_folder.name
        self.model = load_model(self.name, 1, steps.export_folder / "1")

    def requests(self, split: str) -> list[pa.Table]:
        """The requests of a split of the data, a table each."""
        found = []
        data = DataSplit(self.folder / "data" / split)
        for table in data.batches(data.columns):
            bounds = itertools.pairwise(request_starts(table, "request_id"))
            found += [table.slice(start, end - start) for start, end in bounds]
        return found

    @contextmanager
    def logging(self, folder: Path, **changes: Any) -> Iterator[Callable[..., None]]:
        """Gives a function that answers a table of rows and logs it."""
        logger = PredictionLogger(LogFiles(folder), 1.0, queue_size=100_000)

        def serve(table: pa.Table, signature: str, request_id: str) -> None:
            raw = _raw(signature)
            request = predict_pb2.PredictRequest()
            request.model_spec.name = self.name
            request.model_spec.signature_name = signature
            request.model_spec.version.value = 1
            for name, array in raw(self.schema, table).items():
                encode(array, request.inputs[name], content=True)
            response = replay(self.model, request).response
            values = {"model": self.name, "version": 1, "signature": signature, **changes}
            logger.observe(finished(values.pop("request", request), response, request_id, **values))

        yield serve
        logger.close()
        if logger.failed or logger.dropped:
            raise RuntimeError(f"{logger.failed} calls failed, {logger.dropped} were dropped")


def _raw(signature: str) -> Callable[[Schema, pa.Table], Raw]:
    """Makes the inputs of a signature."""
    if signature.endswith(WITH_CONTEXT):
        return example_request
    return {"rank": raw_request, "serving_default": raw_rows}.get(signature, example_rows)
