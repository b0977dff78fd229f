"""Offline metrics: exact, in float64, over whole arrays.

Labels are 0 or 1; scores are numbers of which a higher one means "more likely 1".
A metric that its data does not define is nan with an `UndefinedMetricWarning`;
in the dictionary of `task_metrics` it is None.
"""

from pipelines.metrics.at_k import AT_K, MeansAtK
from pipelines.metrics.intervals import (
    Difference,
    Interval,
    auc_difference,
    auc_interval,
    delong_interval,
    gauc_interval,
)
from pipelines.metrics.metric import Metric
from pipelines.metrics.metric_inputs import UndefinedMetricWarning
from pipelines.metrics.probability import (
    CalibrationCurve,
    calibration,
    calibration_curve,
    calibration_error,
    logloss,
    normalised_entropy,
    recalibrated_entropy,
)
from pipelines.metrics.ranked import LabelCounts
from pipelines.metrics.score_order import (
    RocCurve,
    auc,
    auc_by_class,
    average_precision,
    gauc,
    roc_curve,
)
from pipelines.metrics.scored_rows import ScoredRows
from pipelines.metrics.segment_metrics import SegmentMetrics
from pipelines.metrics.slice_search import Slice, SliceSearch, worst_slices
from pipelines.metrics.smooth import SmoothCalibration, smooth_calibration
from pipelines.metrics.table import METRICS
from pipelines.metrics.task import own_metrics, task_metrics

__all__ = [
    "AT_K",
    "METRICS",
    "CalibrationCurve",
    "Difference",
    "Interval",
    "LabelCounts",
    "MeansAtK",
    "Metric",
    "RocCurve",
    "ScoredRows",
    "SegmentMetrics",
    "Slice",
    "SliceSearch",
    "SmoothCalibration",
    "UndefinedMetricWarning",
    "auc",
    "auc_by_class",
    "auc_difference",
    "auc_interval",
    "average_precision",
    "calibration",
    "calibration_curve",
    "calibration_error",
    "delong_interval",
    "gauc",
    "gauc_interval",
    "logloss",
    "normalised_entropy",
    "own_metrics",
    "recalibrated_entropy",
    "roc_curve",
    "smooth_calibration",
    "task_metrics",
    "worst_slices",
]
