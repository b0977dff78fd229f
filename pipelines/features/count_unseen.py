"""Counts the values that are new in the last train rows and in the validation rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from pipelines.features.fitted import FittedFeatures, feature_column
from pipelines.features.lists import flatten_list
from pipelines.features.unseen import UnseenValues
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.ingest.row_order import RowOrder
from pipelines.storage.dataset import DataSplit
from recsys_attn.id_transforms import Vocabulary
from recsys_attn.schema import PADDING_ID, RESERVED_IDS, UNKNOWN_ID, is_listed


def count_unseen(
    fitted: FittedFeatures,
    train: DataSplit,
    valid: DataSplit,
    order: RowOrder,
    share: float,
    known: Mapping[str, int],
    progress: Callable[[int], object],
) -> dict[str, UnseenValues]:
    """Counts new values by feature, for each feature with a vocabulary, in one pass.

    A value is late if the rows before the last ones have it less often than the vocabulary's
    `min_count`: a model trained on them would not know it.

    Args:
        fitted: The features.
        train: The train rows.
        valid: The validation rows.
        order: Says which of the train rows are the last ones.
        share: The share of the last ones.
        known: By feature, the number of first values that an earlier run knows.
        progress: Called with the rows done.
    """
    transforms = fitted.transforms.items()
    sizes = {name: of.size for name, of in transforms if isinstance(of, VocabularyTransform)}
    if not sizes:
        return {}
    names = list(sizes)
    counts = {name: np.zeros(2 * size, np.int64) for name, size in sizes.items()}
    cut, first_row = order.cut(train, share), 0
    columns = list(dict.fromkeys(fitted.schema[name].column_name for name in names))
    for table in train.batches(list(dict.fromkeys([*columns, *order.columns]))):
        is_last = order.places(table, first_row) >= cut
        for name in names:
            ids, rows = _ids(fitted, name, table)
            np.add.at(counts[name], ids + is_last[rows] * np.int64(sizes[name]), 1)
        first_row += table.num_rows
        progress(table.num_rows)
    of_valid = {name: np.zeros(2, np.int64) for name in names}
    for table in valid.batches(columns):
        for name in names:
            ids, _ = _ids(fitted, name, table)
            of_valid[name] += (ids == UNKNOWN_ID).sum(), (ids != PADDING_ID).sum()
        progress(table.num_rows)
    return {
        name: _unseen(fitted, name, counts[name].reshape(2, -1), of_valid[name], known)
        for name in names
    }


def _ids(fitted: FittedFeatures, name: str, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The ids of a feature's values, and the row of each."""
    feature = fitted.schema[name]
    values, rows = feature_column(table, feature), table.num_rows
    lengths = np.ones(rows, np.int64)
    if is_listed(feature):
        values, offsets = flatten_list(values)
        lengths = np.diff(offsets)
    return fitted.transforms[name].apply(values), np.repeat(np.arange(rows), lengths)


def _unseen(
    fitted: FittedFeatures,
    name: str,
    counts: np.ndarray,
    of_valid: np.ndarray,
    known: Mapping[str, int],
) -> UnseenValues:
    """The new values of a feature.

    Args:
        fitted: The features.
        name: Name of the feature.
        counts: Of each id, its values before and in the last train rows, `(2, size)`.
        of_valid: The unknown values of the validation rows, and all that are not missing.
        known: By feature, the number of first values that an earlier run knows.
    """
    before, last = counts
    transform = fitted.schema[name].transform
    least = transform.min_count if isinstance(transform, Vocabulary) else 1
    is_late = (before < least) & (last > 0)
    is_late[: RESERVED_IDS + known.get(name, 0)] = False
    if not before.any():  # nothing is earlier: all rows have one time
        is_late[:] = False
    late = np.flatnonzero(is_late).astype(np.int32)
    new = last[late].sum() + last[UNKNOWN_ID]
    of_train = (before[late] + last[late]).sum() / max(1, (before + last)[UNKNOWN_ID:].sum())
    return UnseenValues(
        len(before),
        late,
        float(new / max(1, last[UNKNOWN_ID:].sum())),
        float(of_train),
        float(of_valid[0] / max(1, of_valid[1])),
    )
