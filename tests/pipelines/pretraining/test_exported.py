"""The exported model of a run: raw events in, and the scores of the trained model out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.pretraining.sequence_steps import load_sequence_model
from recsys_attn.models import SequenceModel

TOP = 7
HISTORIES = [
    ["film 3", "film 0", "film 11", "film 3"],
    ["film 1"],
    ["film 2", "no such film"],
    ["no such film"],
    [],
    [f"film {number}" for number in (4, 5, 6, 7, 8, 9, 10)],  # two more than the model sees
]


def padded(rows: list[list[str]]) -> tf.Tensor:
    length = max(1, *map(len, rows))
    return tf.constant([row + [""] * (length - len(row)) for row in rows])


@pytest.fixture(scope="module")
def trained(finished: Path) -> tuple[SequenceModel, list[str], np.ndarray]:
    """The model, the items by id, and the scores of the histories."""
    fitted, model = load_sequence_model(finished / "run")
    vocabulary: Any = fitted.transform_of("film")
    items = ["", "", *vocabulary.values.to_pylist()]
    ids = np.zeros((len(HISTORIES), model.max_length), "int32")
    for row, history in enumerate(HISTORIES):
        last = history[-model.max_length :]
        ids[row, : len(last)] = [items.index(x) if x in items else 1 for x in last]
    scores = model.scores(model.next_states({"film": ids, "age": (ids > 0) * 2}))
    return model, items, scores.numpy()


@pytest.fixture(scope="module")
def signatures(finished: Path) -> Any:
    return tf.saved_model.load(str(finished / "run/export/small/1")).signatures


def next_items(signatures: Any, exclude: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    found = signatures["next_items"](film=padded(HISTORIES), exclude=padded(exclude))
    return found["items"].numpy().astype(str), found["scores"].numpy()


def test_best_items_are_those_of_the_model(signatures: Any, trained: Any) -> None:
    """Without those of the history, and without excluded ones."""
    model, names, scores = trained
    exclude = [[], ["film 3", "film 0"], ["no such film"], [names[2]], [names[5]], []]
    items, found = next_items(signatures, exclude)
    assert items.shape == (len(HISTORIES), TOP)
    for row, (history, out) in enumerate(zip(HISTORIES, exclude, strict=True)):
        left = [n for n in range(2, model.size) if names[n] not in {*history, *out}]
        best = np.sort(scores[row][left])[::-1][:TOP]
        np.testing.assert_allclose(found[row], best, atol=1e-5)
        ids = [names.index(item) for item in items[row]]
        assert set(ids) <= set(left)
        assert len(set(ids)) == TOP
        np.testing.assert_allclose(scores[row][ids], found[row], atol=1e-5)


def test_given_items_have_the_scores_of_the_model(signatures: Any, trained: Any) -> None:
    _, names, scores = trained
    candidates = [[names[2], names[-1], "no such film", names[7]]] * len(HISTORIES)
    found = signatures["rank"](film=padded(HISTORIES), candidate=padded(candidates))
    ranked = found["score"].numpy()
    assert np.isnan(ranked[:, 2]).all()
    ids = [2, len(names) - 1, 7]
    np.testing.assert_allclose(ranked[:, [0, 1, 3]], scores[:, ids], atol=1e-5)


def test_where_too_few_items_are_left_the_rest_is_missing(signatures: Any, trained: Any) -> None:
    names = trained[1]
    items, found = next_items(signatures, [names[5:]] * len(HISTORIES))
    for row, history in enumerate(HISTORIES):
        left = {*names[2:5]} - {*history}
        assert set(items[row]) == left | {""}
        assert (items[row] != "").tolist() == (np.arange(TOP) < len(left)).tolist()
        np.testing.assert_array_equal(np.isneginf(found[row]), items[row] == "")
