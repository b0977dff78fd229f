"""Serialized Examples are parsed to raw tensors."""

import numpy as np
import tensorflow as tf

from pipelines.export.raw_inputs import raw_request, raw_rows
from pipelines.export.tf_examples import example_request, parse_examples, write_examples
from recsys_attn.schema import is_listed
from tests.support import shop

FEATURES = shop.SCHEMA.features


def parsed(*examples, features=FEATURES):
    serialized = tf.constant([example.SerializeToString() for example in examples])
    return {name: values.numpy() for name, values in parse_examples(features, serialized).items()}


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features))


def same(found, expected):
    """Equal where lists may be padded further."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        values = np.asarray(values)
        if values.dtype == object:
            values = np.vectorize(lambda text: text.encode(), otypes=[object])(values)
        if is_listed(shop.SCHEMA[name]):
            longest = max(values.shape[1], found[name].shape[1])
            missing = {"O": b"", "i": np.iinfo("int64").min, "f": np.nan}[values.dtype.kind]
            values, found[name] = (
                np.pad(a, [(0, 0), (0, longest - a.shape[1])], constant_values=missing)
                for a in (values, found[name])
            )
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_rows_that_are_written_and_parsed_are_the_raw_tensors():
    table = shop.table(29, seed=4, unknown=True)
    assert any(None in table[feature.name].to_pylist() for feature in FEATURES)
    same(parsed(*write_examples(FEATURES, table)), raw_rows(shop.SCHEMA, table))


def test_an_empty_example_has_every_value_missing():
    found = parsed(example(), example())
    for feature in FEATURES:
        missing = {"string": b"", "int64": np.iinfo("int64").min, "float32": np.nan}[feature.dtype]
        if is_listed(feature):
            assert found[feature.name].shape == (2, 0)
        else:
            np.testing.assert_array_equal(found[feature.name], [missing, missing])


def test_a_request_has_its_context_once():
    table = shop.table(1, seed=7, longest=5)
    inputs = example_request(shop.SCHEMA, table)
    assert inputs["context"].shape == (1,)
    assert inputs["examples"].shape == (table.num_rows,)
    raw = raw_request(shop.SCHEMA, table)
    for side, key in (("context", "context"), ("candidate", "examples")):
        own = [feature for feature in FEATURES if feature.side == side]
        found = parse_examples(own, tf.constant(inputs[key]))
        found = {name: values.numpy() for name, values in found.items()}
        same(found, {f.name: raw[f.name][0] if side == "candidate" else raw[f.name] for f in own})
        for serialized in inputs[key]:
            names = set(tf.train.Example.FromString(serialized).features.feature)
            assert names <= {feature.name for feature in own}
