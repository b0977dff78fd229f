"""Feature transforms: fitted in mergeable parts, the same numbers in training and in serving."""

from pipelines.features.fit import fit, fit_split
from pipelines.features.fitted import FittedFeatures

__all__ = ["FittedFeatures", "fit", "fit_split"]
