"""The one exception that a user of the pipelines sees."""

from __future__ import annotations


class PipelineError(Exception):
    """Bad input or a step that cannot go on: one clear sentence, shown without a stack trace."""
