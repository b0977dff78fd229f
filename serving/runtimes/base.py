"""What a runtime is: signatures in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

# gRPC gives a caller who set no deadline one of 292 million years, which overflows elsewhere.
LONGEST_SECONDS = 86_400.0


class Runtime(Protocol):
    """Computes the signatures of one version; threads may share it."""

    definitions: Mapping[str, meta_graph_pb2.SignatureDef]

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name.

        Args:
            key: Name of the signature.
            inputs: An array for each of its inputs; strings are `object` arrays of bytes.
            outputs: Names of the outputs to compute.
            timeout: Seconds that it may take; None for ever.

        Raises:
            ServingError: There is no result; `DeadlineExceeded` where it took too long.
        """

    def close(self) -> None:
        """Frees what it holds. It is never called while a run is under way."""
