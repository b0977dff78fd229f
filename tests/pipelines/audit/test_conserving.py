"""Relevances of layer-wise propagation sum to the logit, but for biases."""

import numpy as np
import pytest

from pipelines.audit.attention_gradients import AttentionGradients
from pipelines.audit.conserving import conserving, require_conserving
from pipelines.audit.gradients import Gradients
from pipelines.audit.heads import several
from pipelines.audit.leave_one_out import Logits, leave_one_out
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import FIELDS, AllUnits
from pipelines.common.errors import PipelineError
from recsys_attn.models import din, mmoe
from tests.pipelines.audit import planted
from tests.support import shop


@pytest.fixture(scope="module")
def units(fitted):
    (inputs,) = rows_of(shop.table(17, seed=5), fitted)
    return AllUnits.of(fitted.schema, inputs)


def without_biases(model):
    """Sets what is added to a signal to zero: biases, positions, the strength of an interest."""
    added = ("bias", "beta", "vector", "position")
    for weight in model.tower.weights:
        if (
            any(name in weight.path.rpartition("/")[2] for name in added)
            or "position" in weight.path
        ):
            weight.assign(np.zeros(weight.shape))
    return model


MODELS = {
    "interest": {},
    "encoder": {
        "encoder": {"name": "transformer", "positions": "learned"},
        "target_attention": {**shop.TARGET_ATTENTION, "num_heads": 2},
    },
}


@pytest.fixture(
    scope="module", params=[*MODELS, "din", pytest.param("mmoe", marks=pytest.mark.thorough)]
)
def model(request, fitted):
    if request.param not in MODELS:
        made = (
            din(fitted.schema, width=4, mlp_units=(7, 5))
            if request.param == "din"
            else mmoe(
                fitted.schema, width=4, experts={"number": 3, "units": (7,)}, tower_units=(5,)
            )
        )
        rng = np.random.default_rng(3)
        for weight in made.weights:
            if "moving" not in weight.path and "calibration" not in weight.path:
                weight.assign(rng.normal(0, 0.5, weight.shape))
        return without_biases(made)
    return without_biases(shop.model(fitted, **MODELS[request.param]))


@pytest.mark.sampled(3)
def test_relevances_sum_to_the_logit(model, units):
    whole = Logits(model)(units.fields.inputs)
    relevance, total = Gradients(model, conserving).times_input(units)
    np.testing.assert_allclose(total, whole, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(relevance[FIELDS].sum(axis=-1), whole, rtol=1e-3, atol=1e-4)
    assert np.abs(whole).max() > 0.1
    _, gradients = Gradients(model).times_input(units)
    assert np.abs(gradients - whole).max() > 0.02  # which plain gradients do not


@pytest.mark.thorough
def test_biases_take_what_the_inputs_do_not(fitted, units):
    model = without_biases(shop.model(fitted))
    bias = 0.37
    for weight in model.tower.head.weights:
        if tuple(weight.shape) == (1,):  # of the logits
            weight.assign([bias])
    whole = Logits(model)(units.fields.inputs)
    _, total = Gradients(model, conserving).times_input(units)
    np.testing.assert_allclose(whole - total, bias, atol=1e-4)


def test_relevance_of_a_linear_model_is_leaving_one_out(fitted, units):
    model = shop.linear_model(fitted)
    logits = Logits(model)
    left_out = leave_one_out(logits, logits(units.fields.inputs), units.fields)
    found = Gradients(model, conserving).times_input(units)[0][FIELDS]
    np.testing.assert_allclose(found, left_out, atol=3e-5)


def test_all_relevance_of_attention_goes_through_the_values():
    table = planted.table()
    fitted = planted.fitted(table)
    (inputs,) = rows_of(table, fitted)
    units, model = AllUnits.of(fitted.schema, inputs), planted.model(fitted)
    found, _ = Gradients(model, conserving).times_input(units)
    like = units.events["history"].by_event(planted.like_events(inputs))
    np.testing.assert_allclose(found["events/history"], [like, 0 * like], atol=1e-5)
    np.testing.assert_array_equal(found[FIELDS][:, :, units.fields.names.index("item")], 0)


@pytest.mark.thorough
def test_the_heads_of_the_last_layer_carry_the_relevance(fitted, units):
    """Without a residual and an MLP, all that reaches the logit passes the heads."""
    model = without_biases(shop.model(fitted, mlp_units=(), interaction={"num_heads": 2}))
    for weight in model.tower.interaction.weights:
        kernel = weight.numpy().copy()
        kernel[:, 3 * 6 :] = 0  # the residual, after query, key and value of two heads of 3
        weight.assign(kernel)
    whole = Logits(model)(units.fields.inputs)
    found = several(AttentionGradients(model, conserving)(units))
    assert [str(one.place) for one in found] == ["interaction 1"]
    np.testing.assert_allclose(found[0].heads.sum(axis=2), whole, rtol=1e-3, atol=1e-4)
    assert np.abs(whole).max() > 0.01


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", ["linear_transformer", "linformer"])
def test_attention_without_constant_weights_is_refused(fitted, mechanism):
    model = shop.model(fitted, interaction=mechanism)
    with pytest.raises(PipelineError, match=r"layer_wise_relevance.*interaction 1"):
        require_conserving(model)
    require_conserving(shop.model(fitted))
