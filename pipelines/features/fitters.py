"""The fitter of each feature; importing this registers the built-in transforms."""

from __future__ import annotations

import dataclasses

from pipelines.features import age as age
from pipelines.features import hashing as hashing
from pipelines.features import numeric as numeric
from pipelines.features import quantile as quantile
from pipelines.features import vocabulary as vocabulary
from pipelines.features.transforms import TRANSFORMS, Fitter
from recsys_attn.id_transforms import OwnTransform
from recsys_attn.schema import Feature, Numeric


def fitter(feature: Feature) -> Fitter:
    """The fitter of a feature's transform."""
    if isinstance(feature, Numeric):
        return TRANSFORMS["numeric"](feature.transform)
    transform = feature.transform
    if isinstance(transform, OwnTransform):
        return TRANSFORMS[transform.name](**transform.options)
    options = dataclasses.asdict(transform)
    return TRANSFORMS[options.pop("kind")](**options)
