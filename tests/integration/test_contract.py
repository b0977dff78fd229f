"""Names that the exporter writes and the server reads are equal on both sides."""

from __future__ import annotations

import pytest

from pipelines.common import artifacts
from pipelines.export import file_list, raw_inputs, warmup
from pipelines.export import signatures as exported
from serving.common import signature_names as served
from serving.inference import classify
from serving.models import completeness
from serving.models import warmup as replay
from serving.runtimes.tensorflow import saved_model


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (raw_inputs.ROWS_SIGNATURE, served.DEFAULT_SIGNATURE),
        (raw_inputs.RANK_SIGNATURE, served.RANK_SIGNATURE),
        (raw_inputs.EXPLAINED_SIGNATURE, served.EXPLAINED_SIGNATURE),
        (exported.WITH_CONTEXT, served.WITH_CONTEXT),
        (exported.CLASSIFY_METHOD, classify.CLASSIFY_METHOD),
        (exported.REGRESS_METHOD, classify.REGRESS_METHOD),
        (exported.MANIFEST_MARK, saved_model.MANIFEST_MARK),
        (artifacts.MANIFEST, saved_model.MANIFEST),
        (file_list.FILES, completeness.FILES),
        (file_list.BYTES, completeness.BYTES),
        (file_list.SHA256, completeness.SHA256),
        (warmup.WARMUP_FILE.as_posix(), replay.WARMUP_FILE),
    ],
)
def test_both_sides_use_the_same_name(written: str, read: str) -> None:
    assert written == read
