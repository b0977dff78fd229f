"""TensorFlow's `saved_model_cli` runs every signature of an export, without this project."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from pipelines.export.raw_inputs import MISSING, OF_CANDIDATES, raw_request, raw_rows
from pipelines.export.tf_examples import example_request
from pipelines.scoring.scorer import Scorer
from recsys_attn.schema import Schema, is_listed
from tests.support import saved_model_cli, shop
from tests.support.exports import write_export

NAMES = ("user", "age", "item", "tags", "sales", "past_items")  # each run builds the graph again
SCHEMA = Schema(tuple(f for f in shop.SCHEMA.features if f.name in NAMES), shop.SCHEMA.tasks)
TABLE = shop.table(1, seed=7, longest=5, schema=SCHEMA)
ROWS = TABLE.to_pylist()


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A model's scorer, its transforms, the folder and what its manifest says of signatures."""
    fitted = shop.fitted(SCHEMA)
    model = shop.model(fitted)
    folder = tmp_path_factory.mktemp("export") / "1"
    return Scorer(model), fitted, folder, write_export(folder, model, fitted)["signatures"]


@pytest.fixture(scope="module")
def answers(export, tmp_path_factory):
    """Outputs by name of every run, all in one process that starts TensorFlow once."""
    _, _, folder, signatures = export
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    runs = [[name, *arguments(name, described)] for name, described in signatures.items()]
    for part in ("attention", "gate"):  # the tool makes none for outputs' names with /
        (elsewhere / "out" / "rank_explained" / part).mkdir(parents=True)
    (elsewhere / "runs.json").write_text(json.dumps(runs))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, saved_model_cli.__file__, folder, elsewhere / "out", "runs.json"],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for name in signatures:
        answered = elsewhere / "out" / name
        files = {str(file.relative_to(answered)): file for file in answered.rglob("*.npy")}
        found[name] = {
            file.removesuffix(".npy"): np.load(path, allow_pickle=True)
            for file, path in files.items()
        }
    return found


def arguments(name, described):
    """How a user writes the rows of `TABLE`: as literals, as bytes, or as Examples."""
    inputs = set(described["inputs"])
    if inputs == {"inputs"}:
        return "--input_examples", f"inputs={literal([features(row) for row in ROWS])}"
    if inputs == {"context", "examples"}:
        given = example_request(SCHEMA, TABLE)
    else:
        make = raw_rows if name == "serving_default" else raw_request
        given = make(SCHEMA, TABLE)
    return "--input_exprs", ";".join(f"{k}={literal(a.tolist())}" for k, a in given.items())


def features(row):
    """A row's values as lists, without what it does not have."""
    found = {}
    for feature in SCHEMA.features:
        value = row[feature.name]
        values = value if is_listed(feature) else [value]
        if values and value is not None:
            found[feature.name] = [MISSING[feature.dtype] if v is None else v for v in values]
    return found


def literal(value):
    """The value as Python text for a command line that is split at each `;`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, float | np.floating) and np.isnan(value):
        return "1e999"  # there is no literal of NaN; infinite is missing too
    return repr(value).replace(";", "\\x3b")


def test_every_signature_scores_as_the_training_path(export, answers):
    scorer, fitted, _, signatures = export
    assert len(signatures) == 5 + 2 * 2 * 2 + 2 * 2  # methods x tasks x contexts, first task's
    expected = scorer.score_table(TABLE, fitted, None)
    assert TABLE.num_rows > 1
    for name, described in signatures.items():
        found = answers[name]
        assert set(found) == set(described["outputs"])
        if not name.startswith(("classify", "regress")):
            for task, scores in expected.items():
                given = found[task][0] if name in OF_CANDIDATES else found[task]
                np.testing.assert_allclose(given, scores, rtol=0, atol=1e-5)
            continue
        task = "buy" if "_buy" in name else "click"
        if name.startswith("regress"):
            np.testing.assert_allclose(found["outputs"], expected[task], rtol=0, atol=1e-5)
        else:
            both = np.stack([1 - expected[task], expected[task]], 1)
            np.testing.assert_allclose(found["scores"], both, rtol=0, atol=1e-5)
            np.testing.assert_array_equal(found["classes"], [[b"0", b"1"]] * TABLE.num_rows)
