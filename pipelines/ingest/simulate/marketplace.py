"""The simulated marketplace: independent requests with drawn histories."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import SimulateOptions
from pipelines.ingest.simulate.click_model import ClickModel
from pipelines.ingest.simulate.request_draws import RequestDraws, draw_requests, requests_at_once
from pipelines.ingest.simulate.world import CATEGORY_NAMES, DEVICE_NAMES, START, World

SECONDS = 20  # from one request to the next


class Marketplace:
    """Independent requests of a world, in chunks."""

    def __init__(self, size: SimulateOptions, seed: int) -> None:
        self._world = World.create(size, seed)
        self._seed = seed
        self.requests_per_chunk = requests_at_once(size)
        self._model = ClickModel(self._world, seed)

    def chunk(self, number: int) -> pa.Table:
        """The rows of a chunk of requests; a function of the seed, the sizes and its number."""
        rng = np.random.default_rng([self._seed, 2, number])
        requests = draw_requests(self._world, rng, self.requests_per_chunk)
        click, conversion = self._model.probabilities(self._world, requests)
        outcomes = self._model.columns(click, conversion, rng.random((2, *click.shape)))
        first = number * self.requests_per_chunk
        return pa.table(_columns(self._world, requests, first) | outcomes)


def _columns(world: World, requests: RequestDraws, first: int) -> dict[str, pa.Array]:
    count, candidates = requests.item.shape
    number = np.arange(first, first + count)
    row = pa.array(np.repeat(np.arange(count), candidates))
    item = requests.item.ravel()
    past = requests.clicked >= 0
    offsets = pa.array(np.concatenate(([0], np.cumsum(past.sum(axis=1)))), pa.int32())
    clicked = requests.clicked[past]

    def repeat(values: pa.Array) -> pa.Array:
        return values.take(row)

    def of_user(values: pa.Array) -> pa.Array:
        return repeat(values.take(pa.array(requests.user)))

    def of_item(values: pa.Array) -> pa.Array:
        return values.take(pa.array(item))

    def lists(values: pa.Array) -> pa.Array:
        return repeat(pa.ListArray.from_arrays(offsets, values))

    return {
        "request_id": repeat(pa.array(number)),
        "timestamp": repeat(pa.array(START + SECONDS * number)),
        "user_id": of_user(world.user_names),
        **{name: of_user(values) for name, values in world.user_features().items()},
        "device": repeat(DEVICE_NAMES.take(pa.array(requests.device))),
        "hour": repeat(pa.array(requests.hour)),
        "clicked_items": lists(pa.array(clicked)),
        "clicked_categories": lists(CATEGORY_NAMES.take(pa.array(world.category[clicked]))),
        "item_id": pa.array(item),
        **{name: of_item(values) for name, values in world.item_features().items()},
    }
