"""Multi-head attention: its heads are single heads, and Keras' own layer agrees with it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, Linear, MultiHeadAttention, presets, scores
from recsys_attn.attention.gates import OutputGate
from tests.support import reference
from tests.support.arrays import assert_close, numpy

B, T, S, E, D, N, H = 2, 3, 5, 7, 11, 4, 13
RNG = np.random.default_rng(0)
QUERY, VALUE, KEY = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, E), (B, S, D), (B, S, D))
)
QUERY_MASK, KEY_MASK = RNG.random((B, T)) < 0.7, RNG.random((B, S)) < 0.7
ATTENTION_MASK = RNG.random((B, N, T, S)) < 0.7


def built(*args: Any, num_heads: Any = N, head_dim: Any = H, **kwargs: Any) -> MultiHeadAttention:
    """A layer with weights that no initializer makes, biases among them."""
    layer = MultiHeadAttention(num_heads, head_dim, *args, **kwargs)
    layer.build(QUERY.shape, VALUE.shape, KEY.shape)
    rng = np.random.default_rng(3)
    layer.set_weights([rng.normal(scale=0.3, size=w.shape) for w in layer.weights])
    return layer


def kernel_and_bias(layer: MultiHeadAttention, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Of one projection, in float64; the bias is zero where there is none."""
    kernel, *bias = (
        numpy(weight).astype("float64") for weight in layer.weights if weight.name.startswith(name)
    )
    return kernel, bias[0] if bias else np.zeros(kernel.shape[1])


def expected(
    layer: MultiHeadAttention,
    masked: bool,
    key_heads: tuple[int, ...] = (0, 1, 2, 3),
    size: int = H,
) -> tuple[np.ndarray, np.ndarray]:
    """The equation of the paper, in float64 and with loops over heads; `size` is the values'."""
    output = kernel_and_bias(layer, "output")[1] + np.zeros((B, T, E))
    weights = np.zeros((B, N, T, S))
    for n in range(N):
        shared = key_heads[n]
        columns = slice(n * size, (n + 1) * size)
        of = {
            "query": slice(n * H, (n + 1) * H),
            "key": slice(shared * H, (shared + 1) * H),
            "value": slice(shared * size, (shared + 1) * size),
        }

        def head(x: np.ndarray, name: str, of: dict[str, slice] = of) -> np.ndarray:
            kernel, bias = kernel_and_bias(layer, name)
            return (x @ kernel[:, of[name]] + bias[of[name]])[:, :, None]

        logits = reference.dot(head(QUERY, "query"), head(KEY, "key"), scale=True)
        allowed = None
        if masked:
            allowed = QUERY_MASK[:, None, :, None] & KEY_MASK[:, None, None]
            allowed = allowed & ATTENTION_MASK[:, n : n + 1]
        weights[:, n : n + 1] = reference.softmax_weights(logits, allowed)
        sums = reference.weighted_sums(weights[:, n : n + 1], head(VALUE, "value"))[:, :, 0]
        output += sums @ kernel_and_bias(layer, "output")[0][columns]
    return output, weights


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
def test_layer_equals_the_paper(masked: bool) -> None:
    layer = built()
    masks = {"query_mask": QUERY_MASK, "key_mask": KEY_MASK, "attention_mask": ATTENTION_MASK}
    output, weights = layer(QUERY, VALUE, KEY, return_weights=True, **(masks if masked else {}))
    wanted, wanted_weights = expected(layer, masked)
    np.testing.assert_allclose(weights, wanted_weights, rtol=1e-4, atol=1e-6)
    assert_close(output, wanted)


GROUPS = {
    "two key heads": ([N, 2], H, (0, 0, 1, 1)),
    "multi-query, small values": ([N, 1], [H, 3], (0, 0, 0, 0)),
    "large values": (N, [H, 17], (0, 1, 2, 3)),
    "uneven groups": ([N, [0, 0, 0, 1]], H, (0, 0, 0, 1)),
}


@pytest.mark.parametrize(("num_heads", "head_dim", "key_heads"), GROUPS.values(), ids=GROUPS)
def test_heads_share_keys_and_values_of_another_size(
    num_heads: Any, head_dim: Any, key_heads: tuple[int, ...]
) -> None:
    layer = built(num_heads=num_heads, head_dim=head_dim)
    masks = {"query_mask": QUERY_MASK, "key_mask": KEY_MASK, "attention_mask": ATTENTION_MASK}
    output, weights = layer(QUERY, VALUE, KEY, return_weights=True, **masks)
    size = head_dim[1] if isinstance(head_dim, list) else head_dim
    wanted, wanted_weights = expected(layer, True, key_heads, size)
    np.testing.assert_allclose(weights, wanted_weights, rtol=1e-4, atol=1e-6)
    assert_close(output, wanted)
    assert kernel_and_bias(layer, "key")[0].shape == (D, (max(key_heads) + 1) * H)
    assert kernel_and_bias(layer, "value")[0].shape == (D, (max(key_heads) + 1) * size)


def test_as_many_key_heads_as_heads_is_the_plain_layer() -> None:
    grouped, plain = built(num_heads=(N, N), head_dim=(H, H)), built()
    sizes = {"num_heads": N, "head_dim": H}
    assert sizes == {key: grouped.get_config()[key] for key in sizes}
    np.testing.assert_array_equal(grouped(QUERY, VALUE, KEY), plain(QUERY, VALUE, KEY))


@pytest.mark.parametrize("mechanism", ["transformer", "linear_transformer"])
def test_heads_are_single_heads_side_by_side(mechanism: str) -> None:
    layer = built(mechanism, use_bias=False)
    total = np.zeros((B, T, E))
    for n in range(N):
        columns = slice(n * H, (n + 1) * H)
        single = MultiHeadAttention(1, H, mechanism, use_bias=False)
        single.build(QUERY.shape, VALUE.shape, KEY.shape)
        *kernels, output_kernel = layer.get_weights()
        single.set_weights([*(kernel[:, columns] for kernel in kernels), output_kernel[columns]])
        total += numpy(single(QUERY, VALUE, KEY))
    assert_close(layer(QUERY, VALUE, KEY), total)


def test_self_attention_takes_the_query_as_value() -> None:
    layer = MultiHeadAttention(2, 3)
    alone = layer(QUERY, query_mask=QUERY_MASK)
    both = layer(QUERY, QUERY.copy(), QUERY.copy(), query_mask=QUERY_MASK, key_mask=QUERY_MASK)
    np.testing.assert_allclose(alone, both, rtol=1e-4, atol=1e-6)


def test_mask_from_keras_counts_for_self_attention() -> None:
    embedding = keras.layers.Embedding(5, E, mask_zero=True)
    ids = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
    layer = MultiHeadAttention(2, 3)
    expected = layer(numpy(embedding(ids)), query_mask=ids != 0)
    np.testing.assert_allclose(layer(embedding(ids)), expected, rtol=1e-4, atol=1e-6)
    symbol = keras.Input((None,), dtype="int32")
    model = keras.Model(symbol, layer(embedding(symbol)))
    np.testing.assert_allclose(model(ids), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mechanism", ["transformer", "performer", "local"])
def test_an_instance_of_another_precision_fits(mechanism: str) -> None:
    parts = {"mechanism": presets.get(mechanism), "gate": OutputGate()}
    output = MultiHeadAttention(2, 3, **parts, dtype="mixed_bfloat16")(QUERY)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"


@pytest.mark.parametrize(
    ("value", "function"),
    [("linear", lambda x: x), ("relu", reference.relu), ("tanh", np.tanh)],
)
def test_values_are_projected_and_activated(value: str, function: Any) -> None:
    layer = built(value=value)
    _, _, heads = layer.project(QUERY, VALUE, KEY)
    kernel, bias = kernel_and_bias(layer, "value")
    wanted = function(VALUE @ kernel + bias).reshape(B, S, N, H)
    assert_close(heads, wanted)


def test_values_as_they_are_reach_every_head() -> None:
    layer = MultiHeadAttention(N, H, value="identity", use_bias=False)
    output, weights = layer(QUERY, VALUE, KEY, return_weights=True)
    heads = np.einsum("bnts,bsd->btnd", weights, VALUE).reshape(B, T, N * D)
    assert_close(output, heads @ kernel_and_bias(layer, "output")[0])


def test_shared_score_has_one_projection() -> None:
    layer = MultiHeadAttention(N, H, Dense("shared_dot"))
    layer(QUERY)
    assert [w.name for w in layer.weights if w.name.endswith("kernel")] == [
        "query_kernel",
        "value_kernel",
        "output_kernel",
    ]
    query, key, _ = layer.project(QUERY, QUERY, None)
    np.testing.assert_array_equal(query, key)


@pytest.mark.parametrize(
    ("score", "projected"),
    [
        ("key_only", {"key", "value"}),
        ("alibi", {"value"}),
        ("scaled_dot", {"query", "key", "value"}),
    ],
)
def test_unused_inputs_have_no_projection(score: str, projected: set[str]) -> None:
    layer = MultiHeadAttention(N, H, Dense(score), use_bias=False)
    assert layer(QUERY, VALUE, KEY).shape == (B, T, E)
    own = [w.name for w in layer.weights if w.path.count("/") == 1]
    assert set(own) == {f"{name}_kernel" for name in (*projected, "output")}


def test_a_bias_is_added_to_the_scores() -> None:
    layer = built()
    bias = np.where(ATTENTION_MASK, 0.0, -1e9).astype("float32")
    allowed = layer(QUERY, VALUE, KEY, attention_mask=ATTENTION_MASK)
    rows = ATTENTION_MASK.any(-1).all(1)  # where a mask leaves nothing, a bias leaves a softmax
    assert_close(numpy(layer(QUERY, VALUE, KEY, attention_bias=bias))[rows], numpy(allowed)[rows])


def test_positions_that_are_given_count() -> None:
    layer = MultiHeadAttention(2, 4, "alibi")
    _, natural = layer(QUERY, VALUE, return_weights=True)
    _, same = layer(
        QUERY,
        VALUE,
        query_positions=np.arange(S - T, S),
        key_positions=np.arange(S)[None].repeat(B, 0),
        return_weights=True,
    )
    np.testing.assert_allclose(same, natural, rtol=1e-5)
    _, now = layer(QUERY, VALUE, query_positions=np.full((B, T), S), return_weights=True)
    alone = layer(QUERY[:, 1:2], VALUE, query_positions=np.full((B, 1), S), return_weights=True)[1]
    np.testing.assert_allclose(numpy(now)[:, :, 1:2], alone, rtol=1e-4, atol=1e-6)
    assert np.abs(numpy(now) - numpy(natural)).max() > 1e-3


WITH_WEIGHTS = ["additive", "alibi", "linformer", "performer", "talking_heads"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("num_heads", [2, 5])
@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_a_mechanism_with_weights_belongs_to_one_layer(name: str, num_heads: int) -> None:
    mechanism = presets.get(name)
    layer = MultiHeadAttention(2, 3, mechanism)
    layer(QUERY)
    with pytest.raises(ValueError, match="The mechanism has weights and belongs to one layer;"):
        MultiHeadAttention(num_heads, 3, mechanism)(QUERY)
    assert layer(QUERY).shape == QUERY.shape
    other = MultiHeadAttention(num_heads, 3, presets.fresh(mechanism))
    assert other(QUERY).shape == QUERY.shape


def test_a_mechanism_without_weights_may_be_shared() -> None:
    mechanism = presets.get("transformer")
    for sizes in ((2, 3), (5, 7)):
        assert MultiHeadAttention(*sizes, mechanism)(QUERY).shape == QUERY.shape


def test_built_mechanism_needs_a_layer_of_its_sizes() -> None:
    mechanism = presets.get("additive")
    heads = np.zeros((B, T, 2, 3), "float32")
    mechanism(heads, heads, heads)
    with pytest.raises(ValueError, match="its weights fit no other sizes"):
        MultiHeadAttention(5, 3, mechanism)(QUERY)
    assert MultiHeadAttention(2, 3, mechanism)(QUERY).shape == QUERY.shape


def test_a_gate_with_weights_belongs_to_one_layer() -> None:
    gate = OutputGate()
    MultiHeadAttention(2, 3, gate=gate)(QUERY)
    with pytest.raises(ValueError, match="The gate has weights and belongs to one layer"):
        MultiHeadAttention(2, 3, gate=gate)(QUERY)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MultiHeadAttention(0, 3), ValueError, "`num_heads` must be a positive integer"),
        (lambda: MultiHeadAttention(2, 0), ValueError, "`head_dim` must be a positive integer"),
        (
            lambda: MultiHeadAttention([4, 3], 2),
            ValueError,
            r"must divide that of query heads.*num_heads=\[4, 3\]",
        ),
        (
            lambda: MultiHeadAttention([3, [0, 2, 2]], 2),
            ValueError,
            r"in rising order\. Received: num_heads=\[3, \[0, 2, 2\]\]",
        ),
        (lambda: MultiHeadAttention([4], 2), ValueError, r"or a pair: .*num_heads=\[4\]"),
        (lambda: MultiHeadAttention(4, [2, 3, 4]), ValueError, "or a pair: the size of queries"),
        (lambda: MultiHeadAttention(4, [2, 0]), ValueError, r"`head_dim\[1\]` must be a positive"),
        (
            lambda: MultiHeadAttention([4, 2], 3, Dense("shared_dot")),
            ValueError,
            r"one projection here, so they have equally many heads.*num_heads=\[4, 2\]",
        ),
        (
            lambda: MultiHeadAttention(4, [3, 2], value="identity"),
            ValueError,
            r"`head_dim` is one number\. Received: head_dim=\[3, 2\]",
        ),
        (lambda: MultiHeadAttention(2, 3, "dens"), ValueError, "Did you mean 'dense'"),
        (lambda: MultiHeadAttention(2, 3, value="lnear"), ValueError, "Did you mean 'linear'"),
        (
            lambda: MultiHeadAttention(2, 3, disagreement=0.1),
            TypeError,
            "`disagreement` must be a layer such as Disagreement",
        ),
        (lambda: MultiHeadAttention(2, 3)(QUERY[0]), ValueError, "`query` must have 3 axes"),
        (
            lambda: MultiHeadAttention(2, 3, "performer")(QUERY, attention_mask=ATTENTION_MASK),
            TypeError,
            "Linear cannot honour `attention_mask`.*use the mechanism Dense",
        ),
        (
            lambda: MultiHeadAttention(2, 3, Linear())(QUERY, return_weights=True),
            ValueError,
            "Linear makes none. Use the mechanism Dense",
        ),
        (
            lambda: MultiHeadAttention(2, 3, scores.Dot()),
            TypeError,
            r"Expected a mechanism .*an argument of one, as in Dense\(score\)\. Received: <Dot",
        ),
        (
            lambda: MultiHeadAttention(2, 3, gate=keras.layers.Dense(3)),
            TypeError,
            r"Expected a gate, .*`call\(heads, inputs, .*Received: .*`call\(inputs, training, ",
        ),
        (
            lambda: MultiHeadAttention(2, 3, activation="rleu"),
            ValueError,
            "`activation` must be an activation of Keras.*Did you mean 'relu'",
        ),
        (
            lambda: MultiHeadAttention(2, 3, Dense("shared_dot"))(QUERY, VALUE),
            ValueError,
            r"one projection .* the same width; .*query.shape=\(2, 3, 7\), key.shape=\(2, 5, 11\)",
        ),
        (
            lambda: MultiHeadAttention(2, 3)(QUERY, key_mask=np.ones((B, S), bool)),
            ValueError,
            r"`key_mask` must have shape \(B, S\) with B=2, S=3",
        ),
    ],
)
def test_wrong_use_is_one_sentence(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_kernel_initializer_draws_each_projection_anew() -> None:
    gate = OutputGate()
    layer = MultiHeadAttention(4, 16, gate=gate)
    small = {"class_name": "RandomNormal", "config": {"stddev": 0.02}}
    layer.kernel_initializer = gate.kernel_initializer = small
    layer.build((None, None, 64))
    kernels = [np.asarray(w).ravel() for w in layer.weights if "kernel" in w.name]
    assert len(kernels) == 5
    for kernel in kernels:
        np.testing.assert_allclose(kernel.std(), 0.02, rtol=0.05)
    assert np.abs(np.corrcoef(kernels) - np.eye(5)).max() < 0.1
