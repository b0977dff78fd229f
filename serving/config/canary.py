"""The option `canary`: the label that answers a request without a version or a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.common.errors import InvalidArgument
from serving.common.sampling import is_sampled

STABLE, CANARY = "stable", "canary"


@dataclass(frozen=True)
class CanaryOptions:
    """The option `canary`: `MODEL:SHARE`.

    Args:
        model: Name of the model.
        share: Share of its requests that the label `canary` answers. Raise it for an earlier
            decision, lower it if a bad version is expensive.

    Example:
        >>> CanaryOptions("ctr", 1.0).labels("ctr", "r-1")
        ('canary', 'stable')
        >>> CanaryOptions("ctr", 1.0).labels("other", "r-1")
        ()
    """

    model: str
    share: float

    @classmethod
    def parse(cls, text: str, models: Sequence[str]) -> CanaryOptions:
        """Parses the option.

        Args:
            text: Its text.
            models: Names of the models in the model config file.

        Raises:
            InvalidArgument: It has not two parts, no such model is in the file, or the share is
                out of range.
        """
        model, _, share = text.rpartition(":")
        try:
            options = cls(model, float(share))
        except ValueError as error:
            raise _invalid(text) from error
        if not (model and 0 < options.share <= 1):
            raise _invalid(text)
        if model not in models:
            raise InvalidArgument(
                f"`canary` must name a model of `model_config_file`: {', '.join(models)}. "
                f"Received: {text!r}"
            )
        return options

    def labels(self, model: str, request_id: str) -> tuple[str, ...]:
        """Returns the labels that may answer a request, the first choice first.

        A request keeps its labels when it is sent again, and on every server. The log samples
        independently of this.
        """
        if model != self.model:
            return ()
        return (CANARY, STABLE) if is_sampled(request_id, self.share, CANARY) else (STABLE,)


def _invalid(text: str) -> InvalidArgument:
    return InvalidArgument(
        "`canary` must be MODEL:SHARE, the share above 0 and at most 1, such as ctr:0.1. "
        f"Received: {text!r}"
    )
