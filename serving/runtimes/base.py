"""The protocol of a runtime, which computes signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2


class Runtime(Protocol):
    """Computes the signatures of one version; it is thread-safe."""

    definitions: Mapping[str, meta_graph_pb2.SignatureDef]

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Returns outputs by name.

        Args:
            key: Name of the signature.
            inputs: An array for each of its inputs; strings are `object` arrays of bytes.
            outputs: Names of the outputs to compute.
            timeout: Seconds that the computation may take; None for no limit.

        Raises:
            ServingError: The computation failed; `DeadlineExceeded` if it took too long.
        """

    def close(self) -> None:
        """Frees its memory. It is never called during a run."""
