"""Registries as they were: tests that register parts leave none behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.features.transforms import TRANSFORMS
from pipelines.ingest.source import SOURCES
from pipelines.metrics import METRICS
from recsys_attn.attention.gates import GATES
from recsys_attn.attention.mechanisms import MECHANISMS
from recsys_attn.attention.patterns import PATTERNS
from recsys_attn.attention.positions import POSITIONS
from recsys_attn.attention.scores import SCORES
from recsys_attn.attention.weightings import WEIGHTINGS
from recsys_attn.models import MODELS

REGISTRIES = (
    *(SCORES, PATTERNS, WEIGHTINGS, MECHANISMS, GATES, POSITIONS),
    *(MODELS, TRANSFORMS, SOURCES, METRICS),
)


@contextmanager
def restored(folder: Path) -> Iterator[None]:
    """Removes the parts registered in the block, and the modules of a folder."""
    before = [dict(registry.members) for registry in REGISTRIES]
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and Path(file).is_relative_to(folder):
                del sys.modules[name]
        for registry, members in zip(REGISTRIES, before, strict=True):
            registry.members.clear()
            registry.members.update(members)
