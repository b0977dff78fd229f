"""Views for Classify, Regress and MultiInference: names, methods, tensors."""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from pipelines.export.signatures import (
    MANIFEST_MARK,
    View,
    add_views,
    name_histories,
    views,
)
from pipelines.features.graph import raw_dtype
from recsys_attn.id_transforms import Age
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task, is_listed
from serving.encoding.features import TensorSpec

ITEM, AGE = Numeric("price"), Numeric("age", "context")
METHOD = "tensorflow/serving/"


def test_every_task_has_views_and_the_first_plain_names():
    found = views(Schema((ITEM, AGE), (Task("click"), Task("buy"))))
    for task in ("click", "buy"):
        regress = {"outputs": task}
        classify = {"classes": f"{task}.classes", "scores": f"{task}.scores"}
        assert found.pop(f"regress_{task}") == View("examples", METHOD + "regress", regress)
        assert found.pop(f"classify_{task}") == View("examples", METHOD + "classify", classify)
        for name, outputs in (("regress", regress), ("classify", classify)):
            view = found.pop(f"{name}_{task}_with_context")
            assert view == View("examples_with_context", METHOD + "predict", outputs)
    every = views(Schema((ITEM, AGE), (Task("click"), Task("buy"))))
    assert found == {
        name: every[name.replace("regress", "regress_click").replace("classify", "classify_click")]
        for name in ("regress", "regress_with_context", "classify", "classify_with_context")
    }


def test_without_candidates_there_is_no_context_of_its_own():
    names = {"regress", "regress_t", "classify", "classify_t"}
    assert views(Schema((AGE,), (Task("t"),))).keys() == names


@pytest.fixture
def saved(tmp_path):
    """A SavedModel with the signature `examples` of a string's length and its double."""

    def examples(inputs):
        length = tf.cast(tf.strings.length(inputs), tf.float32)
        return {"t": length, "t.scores": tf.stack([length, 2 * length], 1)}

    specs = tf.TensorSpec([None], tf.string, "inputs")
    concrete = tf.function(examples).get_concrete_function(specs)
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"), signatures={"examples": concrete})
    return tmp_path / "1"


def read(folder):
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0]


def test_views_share_the_tensors_and_add_no_graph(saved):
    before = read(saved)
    added = {
        "regress": View("examples", METHOD + "regress", {"outputs": "t"}),
        "classify": View("examples", METHOD + "classify", {"scores": "t.scores"}),
    }
    add_views(saved, added)
    after = read(saved)
    assert after.graph_def == before.graph_def
    assert after.object_graph_def == before.object_graph_def
    whole = after.signature_def["examples"]
    assert whole == before.signature_def["examples"]
    for name, view in added.items():
        definition = after.signature_def.pop(name)
        assert definition.method_name == view.method
        assert definition.inputs == whole.inputs  # MultiInference asks for one tensor
        for output, of in view.outputs.items():
            assert definition.outputs[output] == whole.outputs[of]
        assert tf.compat.v1.saved_model.is_valid_signature(definition)
    assert after.signature_def == before.signature_def


def test_mark_announces_a_manifest(saved):
    assert (saved / "fingerprint.pb").exists()
    before = read(saved).collection_def
    add_views(saved, {})
    add_views(saved, {})
    after = read(saved).collection_def
    assert after.keys() - before.keys() == {MANIFEST_MARK}
    assert list(after[MANIFEST_MARK].bytes_list.value) == [b"manifest.json"]
    found = tf.saved_model.load(str(saved)).signatures["examples"](tf.constant(["ab"]))
    assert found["t"].numpy().tolist() == [2]
    # It was the unchanged file's.
    assert not (saved / "fingerprint.pb").exists()


def test_axes_of_sequences_are_named_after_histories(tmp_path):
    def rows(**raw):
        return {"click": tf.zeros(tf.shape(raw["item"])[0])}

    schema = Schema(
        (
            Categorical("item", dtype="int64"),
            Categorical("tags", multivalued=True),
            Sequence("seen", "item", "views", dtype="int64"),
            Sequence("seconds", history="views", dtype="float32", transform=Age()),
            Sequence("bought", "item", "orders", dtype="int64"),
        ),
        (Task("click"),),
    )
    specs = {
        f.name: tf.TensorSpec([None] * (1 + is_listed(f)), raw_dtype(f), f.name)
        for f in schema.features
    }
    concrete = tf.function(rows).get_concrete_function(**specs)
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"serving_default": concrete})
    name_histories(tmp_path, schema)
    inputs = read(tmp_path).signature_def["serving_default"].inputs
    found = {name: TensorSpec.from_proto(info).history for name, info in inputs.items()}
    assert found == {
        "item": "", "tags": "", "seen": "views", "seconds": "views", "bought": "orders"
    }  # fmt: skip
    assert tf.saved_model.load(str(tmp_path)).signatures["serving_default"] is not None
