"""A user's parts, in the processes of a user: run, run folder, scoring, and the served graph."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.integration.commands import error_of, invoke, start
from tests.support.experiments import QUICK, write

PARTS = """
from dataclasses import dataclass

from keras import ops

from pipelines.features.transforms import TRANSFORMS
from pipelines.features.unfitted import HashTransform
from recsys_attn.attention.scores import SCORES, Score
from recsys_attn.id_transforms import Hash
from recsys_attn.models import MODELS
from recsys_attn.models.din import din


@SCORES.register("own_product")
class OwnProduct(Score):
    def call(self, query, key, allowed=None):
        return ops.einsum("btnh,bsnh->bnts", query, key)


@MODELS.register("own_din")
def own_din(schema, *, scale: float = 1.0):
    score = {"class_name": "dense", "config": {"score": "own_product"}}
    return din(schema, width=4, target_attention=score, mlp_units=(8,))


@TRANSFORMS.register("own_hash")
@dataclass(frozen=True)
class OwnHash:
    buckets: int = 7

    def fit_batch(self, values):
        return None

    def merge(self, first, second):
        return None

    def finish(self, state):
        return HashTransform(self.buckets)

    def load(self, state):
        return HashTransform(self.buckets)
"""
SERVE = """
import json, sys
import tensorflow as tf
assert "own_parts" not in sys.modules and "recsys_attn" not in sys.modules
served = tf.saved_model.load(sys.argv[1]).signatures["rank"]
inputs = {
    name: tf.constant(value, served.structured_input_signature[1][name].dtype)
    for name, value in json.loads(sys.argv[2]).items()
}
print(json.dumps({name: found.numpy().tolist() for name, found in served(**inputs).items()}))
"""


def _own(folder: Path) -> Path:
    (folder / "own_parts.py").write_text(PARTS, "utf-8")
    return write(
        folder,
        ("seed = 3\n", 'seed = 3\nimports = ["own_parts"]\n'),
        ("{ min_count = 2 }", '{ kind = "own_hash", buckets = 11 }'),
        (QUICK[0], 'name = "own_din"'),
        ("epochs = 2", "epochs = 1"),
    )


def _output(*arguments: str | Path) -> str:
    with start(*arguments) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own").resolve()
    _output("run", _own(folder), "--run-dir", folder / "run")
    return folder


@pytest.mark.thorough
def test_graph_serves_without_the_module(finished: Path) -> None:
    target = finished / "scores.parquet"
    files = ("--input", finished / "run/data/test", "--output", target)
    _output("score", finished / "run", *files)  # the run folder stands for the file
    first = pq.read_table(target).slice(0, 1)
    names = ("user_id", "item_id", "price", "clicked_items")
    row = {name: first[name][0].as_py() for name in names}
    inputs = {
        name: [v] if name in ("user_id", "clicked_items") else [[v]] for name, v in row.items()
    }
    export = next((finished / "run/export/tiny").glob("1"))
    printed = subprocess.run(
        [sys.executable, "-c", SERVE, str(export), json.dumps(inputs)],
        check=True,
        capture_output=True,
        text=True,
        cwd=export,
    ).stdout
    served = json.loads(printed.splitlines()[-1])
    for task in ("click", "conversion"):
        found = np.ravel(served[task])[0]
        np.testing.assert_allclose(found, first[f"{task}_score"][0].as_py(), atol=1e-6)


@pytest.mark.thorough
def test_changed_module_runs_its_steps_again(finished: Path) -> None:
    own = finished / "own_parts.py"
    assert _output("train", finished / "run").count("unchanged, skipped") == 1
    own.write_text(own.read_text("utf-8") + "# changed\n", "utf-8")
    output = _output("run", finished / "run")
    assert "ingest: unchanged, skipped" in output
    assert 'train: settings changed: `imports.own_parts` was "' in output


def test_missing_module_is_named(tmp_path: Path) -> None:
    error = error_of(invoke("run", write(tmp_path), "--import", "own_absent"))
    assert "no module 'own_absent' is found. Expected own_absent.py in the folder of the" in error
    assert f"Searched: {tmp_path.resolve()}, " in error
