"""Feature transforms: fitted in mergeable parts, the same numbers in training and in serving.

The names below are imported at their first use, as they need TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recsys_attn.lazy import lazy_names

if TYPE_CHECKING:
    from pipelines.features.fit import fit_split
    from pipelines.features.fitted import FittedFeatures

__all__ = ["FittedFeatures", "fit_split"]

__getattr__, __dir__ = lazy_names(__name__, {"FittedFeatures": "fitted", "fit_split": "fit"})
