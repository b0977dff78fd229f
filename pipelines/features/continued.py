"""Transforms of a run behind another: known values keep their ids, new ones follow them."""

from __future__ import annotations

from pipelines.features.fitted import FittedFeatures, fitter
from pipelines.features.transforms import Growing, Transform
from recsys_attn.schema import RESERVED_IDS, Feature


def earlier_transform(feature: Feature, earlier: FittedFeatures | None) -> Transform | None:
    """The transform that a feature had in an earlier run.

    Args:
        feature: The feature, which owns a table or is a number.
        earlier: The features of that run; None: there was none.

    Returns:
        None where that run did not have the feature, or not with this column, type and transform.
        The limits of a vocabulary may differ.
    """
    if earlier is None or feature.name not in earlier.transforms:
        return None
    before, now = earlier.schema[feature.name], fitter(feature)
    same = type(fitter(before)) is type(now) if isinstance(now, Growing) else fitter(before) == now
    raw = before.dtype == feature.dtype and before.column_name == feature.column_name
    return earlier.transforms[feature.name] if same and raw else None


def is_counted(feature: Feature, earlier: FittedFeatures | None) -> bool:
    """Whether the rows say anything of the transform of a feature."""
    return earlier_transform(feature, earlier) is None or isinstance(fitter(feature), Growing)


def known_values(fitted: FittedFeatures, earlier: FittedFeatures) -> dict[str, int]:
    """How many values of each table are those of `earlier`, which keep their ids."""
    return {
        name: getattr(earlier.transforms[name], "size", RESERVED_IDS) - RESERVED_IDS
        for name, transform in fitted.transforms.items()
        if hasattr(transform, "size")
        and earlier_transform(fitted.schema[name], earlier) is not None
    }


def new_values(fitted: FittedFeatures, earlier: FittedFeatures) -> dict[str, int]:
    """How many values each table of `earlier` has more now."""
    known = known_values(fitted, earlier)
    return {
        name: transform.size - RESERVED_IDS - known[name]
        for name, transform in fitted.transforms.items()
        if name in known and hasattr(transform, "size")
    }
