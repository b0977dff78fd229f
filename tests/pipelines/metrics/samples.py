"""Labels and scores for the tests of the metrics."""

import numpy as np

ROWS = 997
LEVELS = {"distinct": None, "ties": 13, "two levels": 2, "constant": 1}


def sample(levels=None, rows=ROWS, seed=3):
    """Labels that follow the scores; the scores take `levels` values, or all differ."""
    generator = np.random.default_rng(seed)
    scores = generator.random(rows)
    if levels:
        scores = (np.floor(scores * levels) + 0.5) / levels
    labels = (generator.random(rows) < scores).astype(np.float64)
    groups = generator.integers(0, 31, rows)
    return labels, scores, groups
