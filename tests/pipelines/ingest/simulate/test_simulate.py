"""The simulator: rates, ceilings, effects, and streaming."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.metrics import roc_auc_score

from pipelines.ingest.data_options import SimulateOptions
from pipelines.ingest.simulate.marketplace import Marketplace
from pipelines.ingest.simulate.world import World
from tests.pipelines.ingest.files import read_all, run

SIZE = SimulateOptions(rows=200_000)
BY_TIME = {"by": "time", "valid": 0.1, "test": 0.2}


@pytest.fixture(scope="module")
def rows():
    marketplace = Marketplace(SIZE, 5)
    return pa.concat_tables([marketplace.chunk(number) for number in range(5)])


def _logit(table, name):
    p = table[f"{name}_probability"].to_numpy()
    return np.log(p / (1 - p))


def test_simulated_rates_and_ceilings(rows):
    click, ceiling = rows["click"].to_numpy(), rows["click_probability"].to_numpy()
    assert 0.15 < click.mean() < 0.25
    assert 0.80 < roc_auc_score(click, ceiling) < 0.85
    np.testing.assert_allclose(ceiling.mean(), click.mean(), atol=0.004)
    clicked = rows.filter(pc.equal(rows["click"], 1))
    bought = clicked["conversion"].to_numpy()
    ceiling = clicked["conversion_probability"].to_numpy()
    assert 0.2 < bought.mean() < 0.3
    assert 0.74 < roc_auc_score(bought, ceiling) < 0.81
    np.testing.assert_allclose(ceiling.mean(), bought.mean(), atol=0.01)


def test_requests_have_one_context_and_different_candidates(rows):
    request = rows["request_id"].to_numpy()
    np.testing.assert_array_equal(request, np.repeat(np.arange(len(request) // 5), 5))
    assert (np.diff(rows["timestamp"].to_numpy()[::5]) > 0).all()
    context = ["timestamp", "user_id", "segment", "age_group", "device", "hour", "clicked_items"]
    for name in [*context, "clicked_categories"]:
        column = rows.slice(0, 5000)[name].to_pylist()
        assert all(column[k] == column[k - k % 5] for k in range(len(column)))
    items = np.sort(rows["item_id"].to_numpy().reshape(-1, 5), axis=1)
    assert (np.diff(items, axis=1) > 0).all()


def test_histories_are_aligned_and_of_every_length(rows):
    items, categories = rows["clicked_items"], rows["clicked_categories"]
    length = pc.list_value_length(items).to_numpy()
    np.testing.assert_array_equal(length, pc.list_value_length(categories).to_numpy())
    assert set(length) == set(range(SIZE.history_length + 1))
    assert 0.08 < (length == 0).mean() < 0.12
    category = dict(zip(rows["item_id"].to_pylist(), rows["category"].to_pylist(), strict=True))
    for past, names in zip(items.to_pylist()[:500], categories.to_pylist()[:500], strict=True):
        assert [category[item] for item in past] == names


def test_fields_that_only_matter_together(rows):
    """Segment and category: neither explains what the pair does."""
    logit = _logit(rows, "click")
    codes = [rows[n].combine_chunks().dictionary_encode().indices for n in ("segment", "category")]
    segment, category = (code.to_numpy() for code in codes)

    def explained(group):
        mean = np.bincount(group, logit) / np.bincount(group)
        return np.var(mean[group]) / np.var(logit)

    alone = explained(segment) + explained(category)
    assert alone < 0.1
    assert explained(segment * 12 + category) > alone + 0.2


def test_similar_past_clicks_raise_the_logit_less_and_less(rows):
    world = World.create(SIZE, 5)
    style = world.style
    sample = rows.slice(0, 60_000)
    past = sample["clicked_items"].to_pylist()
    items = sample["item_id"].to_pylist()
    similar = np.array(
        [(style[p] == style[i]).sum() if p else 0 for p, i in zip(past, items, strict=True)]
    )
    logit = _logit(sample, "click")
    mean = [logit[similar == n].mean() for n in (0, 2, 4, 6)]
    steps = np.diff(mean)
    assert (steps > 0.1).all()
    assert (np.diff(steps) < 0).all()
    # The style is in no column: items of one style do not share category or brand.
    table = np.zeros((8, 12))
    np.add.at(table, (style, world.category), 1)
    np.testing.assert_array_equal(table, 5)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5, 1.0])
def test_the_tasks_correlate_as_told(correlation):
    marketplace = Marketplace(SimulateOptions(correlation=correlation), 3)
    rows = marketplace.chunk(0)
    found = np.corrcoef(_logit(rows, "click"), _logit(rows, "conversion"))[0, 1]
    np.testing.assert_allclose(found, correlation, atol=0.03)


def test_seeds_differ_and_repeat():
    one, again, other = (Marketplace(SIZE, seed).chunk(1) for seed in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)
    assert not one["item_id"].equals(Marketplace(SIZE, 1).chunk(0)["item_id"])


def test_the_first_rows_do_not_depend_on_their_number(tmp_path):
    few, many = (
        run(tmp_path / str(n), source="simulate", simulate={"rows": n}, split=BY_TIME)
        for n in (3_003, 50_000)
    )
    assert sum(few["rows"].values()) == 3_000  # whole requests
    assert few["request"] == "request_id"
    one, other = (read_all(tmp_path / str(n)) for n in (3_003, 50_000))
    assert one.equals(other.slice(0, 3_000))
    assert many["rows"] == {"train": 35_000, "valid": 5_000, "test": 10_000}


def test_recent_events_say_nothing_of_the_user():
    size = SimulateOptions(rows=40_000, history_length=300, recent=280)
    marketplace, world = Marketplace(size, 5), World.create(size, 5)
    table = pa.concat_tables([marketplace.chunk(number) for number in range(2)])
    histories = table["clicked_items"].to_pylist()[:: size.candidates]
    lengths = {len(history) for history in histories}
    assert min(lengths - {0}) == 281
    assert max(lengths) == 300
    style = dict(enumerate(world.style))
    users = table["user_id"].to_pylist()[:: size.candidates]
    taste = dict(zip(world.user_names.to_pylist(), world.taste, strict=True))
    pairs = [(h, taste[user]) for h, user in zip(histories, users, strict=True) if h]
    old = [style[item] == likes for h, likes in pairs for item in h[:-280]]
    late = [style[item] == likes for h, likes in pairs for item in h[-280:]]
    assert np.mean(old) > 0.4  # half of 0.8, and chance
    assert np.mean(late) == pytest.approx(1 / 8, abs=0.02)
