"""Different ids and their places give the ids again."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.backend.distinct import distinct


def test_places_lead_back_to_the_ids() -> None:
    ids = np.array([[7, 2, 7], [3, 2, 5]], "int32")
    found, places = (ops.convert_to_numpy(x) for x in distinct(ops.convert_to_tensor(ids), 11))
    np.testing.assert_array_equal(found[places], ids)
    assert len(set(found.tolist())) == len(found)
