"""Large requests have the same scores in chunks as whole."""

from __future__ import annotations

import numpy as np
import pytest

from serving.batching.chunking import Chunked
from serving.models.signature import Signature
from tests.serving.batching.test_batched import RANK, ROWS, Model, definition, request, scores_of
from tests.serving.traces import trace


def _signature(model: Model, size: int, rank: bool) -> Signature:
    inputs = RANK if rank else ROWS
    signature = Signature("rank" if rank else "rows", definition(inputs, 1 + rank), model)
    if rank:
        signature.share_candidates(Signature("rows", definition(ROWS, 1), model))
    signature.wrap(lambda compute: Chunked(signature, compute, size))
    return signature


def _large(rows: int, candidates: int) -> dict[str, np.ndarray]:
    one = {name: array[:1] for name, array in request(3, rank=candidates > 0).items()}
    found = {name: np.repeat(array, rows, 0) for name, array in one.items()}
    shape = (rows, candidates) if candidates else (rows,)
    return found | {"price": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}


@pytest.mark.parametrize(
    ("rows", "candidates", "size", "computed"),
    [
        (12, 0, 5, [5, 5, 2]),
        (1, 23, 9, [1, 1, 1]),
        (7, 3, 10, [3, 3, 1]),
        (3, 23, 9, [1] * 9),
        (5, 1, 5, [5]),
    ],
)
def test_chunks_score_as_the_whole(
    rows: int, candidates: int, size: int, computed: list[int]
) -> None:
    model = Model()
    sent = _large(rows, candidates)
    signature = _signature(model, size, candidates > 0)
    scores = signature.run(sent, ["score"], trace())["score"]
    np.testing.assert_array_equal(scores, scores_of(sent))
    assert model.rows == computed
