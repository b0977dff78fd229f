"""Options of the embedding tables of any model."""

from __future__ import annotations

import keras

from recsys_attn.models.ranking import RankingModel


def with_tables(
    model: RankingModel, *, stddev: float | None = None, l2: float | None = None
) -> RankingModel:
    """Returns a ranking model with other options of its embedding tables, and new weights.

    Args:
        model: A ranking model.
        stddev: Standard deviation of the initial rows, and of the vectors of numbers. Lower it
            where seeds differ much; BARS has 1e-4. None or 0: as the model has it, usually 0.01.
        l2: Adds `l2 * |table|^2` to the loss, of each whole table; 1e-6 to 0.05 are usual. Prefer
            the `l2` of a row-wise optimizer for large tables. None or 0: as the model has it,
            usually none.

    Returns:
        The new model; the same one where both are None or 0.

    Example:

    >>> from recsys_attn.models import mlp, with_tables
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> model = mlp(Schema((Categorical("item", size=7),), (Task("click"),)), units=(8,))
    >>> with_tables(model, stddev=1e-4, l2=0.025).embedding.embeddings_initializer.stddev
    0.0001
    """
    changes = {}
    if stddev:
        start = keras.initializers.RandomNormal(stddev=stddev)
        changes["embeddings_initializer"] = keras.initializers.serialize(start)
    if l2:
        penalty = keras.regularizers.L2(l2)
        changes["embeddings_regularizer"] = keras.regularizers.serialize(penalty)
    if not changes:
        return model
    config = model.get_config()
    config["embedding"]["config"] |= changes
    return type(model).from_config(config)
