"""Maps of mean attention."""

import numpy as np

from pipelines.audit.maps import of_pairs


def test_shares_of_pairs_are_a_symmetric_map() -> None:
    shares = np.array([[[0.1, 0.2, 0.3, 0.05, 0.15, 0.2]]])  # (0, 1), (0, 2), (0, 3), (1, 2), ...
    found = of_pairs(shares, 4)
    assert found is not None
    np.testing.assert_array_equal(found, np.swapaxes(found, 1, 2))
    assert np.isnan(found[0].diagonal()).all()
    np.testing.assert_array_equal(found[0, 0, 1:], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(found[0, 1:3, 3], [0.15, 0.2])


def test_shares_of_fields_are_no_map_of_pairs() -> None:
    assert of_pairs(np.full((2, 3, 3), 1 / 3), 3) is None
