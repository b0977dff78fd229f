"""How far the same arithmetic may lie apart on another processor or at another shape.

A vector and the numbers that fill none have functions of their own (`log1p`, `exp`), a quotient
may be a product with a reciprocal, and a sum has another order: each is off by a unit in the last
place or two. Equal to the bit are only copies, integers, what a mask makes zero, and the same
computation again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ULPS = 4 * float(np.finfo("float32").eps)


def assert_rounded(actual: Any, expected: np.ndarray, err_msg: str = "") -> None:
    """Floats but for their rounding, which a difference has from the larger numbers; all else."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected, err_msg=err_msg)
        return
    largest = np.abs(np.nan_to_num(expected)).max(initial=1.0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ULPS * largest, err_msg=err_msg)
