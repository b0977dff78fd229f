"""Finished requests, and the rows of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tensorflow_serving.apis import predict_pb2

from serving.common.request_trace import RequestTrace
from serving.encoding.codec import encode
from tests.serving.stubs import predict
from tests.serving.traces import trace


def finished(message: Any, response: Any, request_id: str, **changes: Any) -> RequestTrace:
    """Returns the trace of a finished request."""
    known = {"model": "tiny", "version": 5, "signature": "serving_default", "seconds": 0.002}
    values = {"api": "Predict", "message": message, "response": response, **known, **changes}
    return trace(request_id=request_id, **values)


def answered(request_id: str, letters: int = 1) -> RequestTrace:
    """Returns the trace of a request with one score."""
    response = predict_pb2.PredictResponse()
    encode([0.25] * letters, response.outputs["click"])
    return finished(predict(), response, request_id)


def finished_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.parquet"))


def rows(folder: Path) -> list[dict[str, Any]]:
    """Returns all rows of all finished files."""
    tables = [pq.ParquetFile(path).read() for path in finished_files(folder)]
    return pa.concat_tables(tables).to_pylist() if tables else []


def left_over(folder: Path) -> list[str]:
    """Returns the names in a folder besides finished files."""
    return sorted({p.name for p in folder.iterdir()} - {p.name for p in finished_files(folder)})
