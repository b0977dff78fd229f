"""Options of the embedding tables of any model."""

from __future__ import annotations

import keras

from recsys_attn.checks import require_number
from recsys_attn.models.ranking import RankingModel


def with_tables(
    model: RankingModel, *, stddev: float | None = None, l2: float | None = None
) -> RankingModel:
    """Returns a ranking model with other options of its embedding tables; other weights stay.

    Args:
        model: A ranking model.
        stddev: Standard deviation of new rows and new vectors of numbers. Lower it where seeds
            differ much; BARS has 1e-4. None: keeps the rows, whose deviation is usually 0.01.
        l2: Adds `l2 * |table|^2` to the loss, of each whole table; 1e-6 to 0.05 are usual. Prefer
            the `l2` of a row-wise optimizer for large tables. None or 0: as the model has it,
            usually none.

    Returns:
        A new model, or `model` where nothing changes.

    Raises:
        ValueError: `stddev` or `l2` is out of range.

    Example:

    >>> from recsys_attn.models import mlp, with_tables
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> model = mlp(Schema((Categorical("item", size=7),), (Task("click"),)), units=(8,))
    >>> with_tables(model, stddev=1e-4, l2=0.025).embedding.embeddings_initializer.stddev
    0.0001
    """
    changes = {}
    if stddev is not None:
        require_number("stddev", stddev, above=0)
        start = keras.initializers.RandomNormal(stddev=stddev)
        changes["embeddings_initializer"] = keras.initializers.serialize(start)
    if l2:
        penalty = keras.regularizers.L2(l2)
        changes["embeddings_regularizer"] = keras.regularizers.serialize(penalty)
    if not changes:
        return model
    config = model.get_config()
    config["embedding"]["config"] |= changes
    copy = type(model).from_config(config)
    copy.tower.set_weights(model.tower.get_weights())
    if stddev is None:
        copy.embedding.set_weights(model.embedding.get_weights())
    return copy
