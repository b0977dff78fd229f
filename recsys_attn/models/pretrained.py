"""Ranking models whose histories are encoded by a trained sequence model."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.checks import unknown_name
from recsys_attn.embedding_tables import plan_tables
from recsys_attn.models.encoded_history import EncodedHistory
from recsys_attn.models.event_encoder import EventEncoder
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.sequence_model import SequenceModel
from recsys_attn.schema import is_age
from recsys_attn.serialization import deserialize, nameless, serialize

GAIN = 0.05  # a trained encoder's vectors have numbers near 1, and new rows near 0.01


def with_encoder(model: RankingModel, trained: SequenceModel, history: str) -> RankingModel:
    """Returns a new ranking model in which a history is encoded first, by a trained encoder.

    The other weights are new. A factor of the encoded events is one of them: it starts small, so
    that other features learn as fast as without an encoder. The rows of the items stay those of the
    ranking model: `copy_rows` gives them those of the trained one.

    Args:
        model: A ranking model without an encoder of this history.
        trained: The sequence model.
        history: Name of a history of the ranking model.

    Raises:
        ValueError: The model has linear terms or no such history, encodes it already, or its events
            have another width; or the encoder uses times, and the history has no ages.

    Example:

    >>> from recsys_attn.models import din, sasrec
    >>> from recsys_attn.models.pretrained import with_encoder
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> trained = sasrec(Schema((Sequence("item", size=9, max_length=5),), ()), width=8)
    >>> item, seen = Categorical("item", size=9), Sequence("seen", shares="item", max_length=5)
    >>> ranker = din(Schema((item, seen), (Task("click"),)), width=8, mlp_units=(4,))
    >>> type(with_encoder(ranker, trained, "history").tower.histories["history"]).__name__
    'EncodedHistory'
    """
    require_vectors_alone(model)
    histories = getattr(model.tower, "histories", {})
    if history not in histories:
        raise ValueError(
            f"The model must have the history that is encoded, one of {sorted(histories)}. "
            f"Received: history={history!r}, in {model.name!r}"
        )
    if isinstance(histories[history], EncodedHistory):
        raise ValueError(
            f"The history {history!r} of {model.name!r} has an encoder already: remove the option "
            "`encoder`, since that of the trained model takes its place"
        )
    if getattr(histories[history], "uses_times", False):
        raise ValueError(
            f"The history {history!r} of {model.name!r} uses the times of its events itself, which "
            "an encoder before it does not pass on. Use a model such as 'din'"
        )
    if trained.encoder.uses_times and not any(map(is_age, model.schema.histories[history])):
        raise ValueError(
            f"The encoder of {trained.name!r} uses the times of events, so the history {history!r} "
            "needs a sequence with the transform 'age'. "
            f"Received: {[s.name for s in model.schema.histories[history]]}"
        )
    config = model.get_config()
    encoder: EventEncoder = deserialize(nameless(serialize(trained.encoder)))
    layer = EncodedHistory(encoder, deserialize(nameless(serialize(histories[history]))), gain=GAIN)
    config["tower"]["config"]["histories"][history] = serialize(layer)
    try:
        ranker = RankingModel.from_config(config)
        new = ranker.tower.histories[history].encoder
        new.set_weights(trained.encoder.get_weights())
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"The encoder of {trained.name!r} does not fit the events of {history!r}: give both "
            f"models the same `width` and the same sequences. {error}"
        ) from None
    return ranker


def copy_rows(model: RankingModel, sequence: str, ids: np.ndarray, vectors: np.ndarray) -> None:
    """Gives the values of a sequence the vectors of a trained model.

    Args:
        model: The ranking model.
        sequence: Name of the sequence; features that share its table have the vectors too.
        ids: Ids of the values (R,).
        vectors: Their vectors (R, E), as `trained.embedding.vectors(...)` gives them.

    Raises:
        ValueError: No feature with a table has this name.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import din
    >>> from recsys_attn.models.pretrained import copy_rows
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=9), Sequence("seen", shares="item")
    >>> model = din(Schema((item, seen), (Task("click"),)), width=2)
    >>> copy_rows(model, "seen", np.array([2, 5]), np.ones((2, 2)))
    >>> np.asarray(model.embedding.vectors("item"))[5]
    array([1., 1.], dtype=float32)
    """
    tables = plan_tables(model.schema, model.embedding.width)
    table = next((table for table in tables if sequence in table.offsets), None)
    if table is None:
        known = [name for table in tables for name in table.offsets]
        raise ValueError(
            f"`sequence` must be a feature with a table. {unknown_name(sequence, known)}"
        )
    variable = next(v for v in model.embedding.variables if v.name == table.name)
    rows = ops.convert_to_numpy(variable).copy()
    rows[table.offsets[sequence] + ids] = vectors
    variable.assign(rows)


def require_vectors_alone(model: RankingModel) -> None:
    """Checks that the rows of a model are vectors, without the weights of linear terms.

    Raises:
        ValueError: They are not: numbers of a trained vector would become such weights.
    """
    if getattr(getattr(model.tower, "interaction", None), "linear", 0):
        raise ValueError(
            f"The rows of {model.name!r} have weights of linear terms beside the vectors, which "
            "are no events of a sequence model. Use a model without linear terms, such as 'din', "
            f"'mlp' or 'dcn'. Received: {model.name!r}"
        )
