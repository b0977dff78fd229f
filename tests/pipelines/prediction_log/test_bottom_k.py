"""The bottom-k sample: independent of order, and uniform."""

import random

import numpy as np

from pipelines.prediction_log.bottom_k import BottomK

NAMES = [f"n{number}" for number in range(211)]


def taken(names: list[str], size: int, seed: int = 0) -> list[str]:
    sample = BottomK[str](size, seed)
    for name in names:
        assert sample.wants(name) or size < 211
        sample.add(name, name)
    return sample.items()


def test_the_order_does_not_matter_and_the_seed_does() -> None:
    shuffled = random.Random(3).sample(NAMES, len(NAMES))
    assert taken(NAMES, 17) == taken(shuffled, 17)
    assert len(set(taken(NAMES, 17))) == 17
    assert taken(NAMES, 17) != taken(NAMES, 17, seed=1)
    assert taken(NAMES, 5) == taken(NAMES, 17)[:5]
    assert sorted(taken(NAMES, 300)) == sorted(NAMES)
    assert taken(NAMES, 0) == []


def test_every_item_is_as_likely() -> None:
    counts = np.zeros(len(NAMES))
    for seed in range(200):
        for name in taken(NAMES, 20, seed):
            counts[int(name[1:])] += 1
    assert counts.std() < 1.5 * np.sqrt(200 * 20 / 211)
