"""One version of a model on the servers of a backend, as a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.common.errors import DataLoss, NotFound, VersionGone
from serving.encoding.codec import decode, encode
from serving.proxy.backend_pool import BackendPool
from serving.runtimes.tensorflow.saved_model import INIT_SIGNATURE

_SIGNATURE_DEF = "signature_def"


class RemoteModel:
    """A `Runtime` that sends every call to a backend.

    Args:
        pool: The servers.
        model: Name of the model there.
        version: Its version there.

    Raises:
        ServingError: The backend does not return the signatures.
    """

    def __init__(self, pool: BackendPool, model: str, version: int) -> None:
        self._spec = model_pb2.ModelSpec(name=model)
        self._spec.version.value = version
        self._pool = pool
        self.definitions: Mapping[str, meta_graph_pb2.SignatureDef] = self._read_definitions()

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Returns outputs by name; see `Runtime.run`.

        Raises:
            VersionGone: The backend no longer has this version.
        """
        request = predict_pb2.PredictRequest(model_spec=self._spec, output_filter=outputs)
        request.model_spec.signature_name = key
        for name, array in inputs.items():
            encode(array, request.inputs[name], content=True)
        try:
            response = self._pool.call(
                lambda channel: prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict,
                request,
                timeout,
            )
        except NotFound as error:
            raise VersionGone(str(error)) from error
        return {name: decode(name, response.outputs[name]) for name in outputs}

    def close(self) -> None:
        """Does nothing: all versions share the connections."""

    def _read_definitions(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=[_SIGNATURE_DEF]
        )
        answers = self._pool.query(
            lambda channel: (
                prediction_service_pb2_grpc.PredictionServiceStub(channel).GetModelMetadata
            ),
            request,
        )
        signatures = get_model_metadata_pb2.SignatureDefMap()
        if not next(answers).metadata[_SIGNATURE_DEF].Unpack(signatures):
            raise DataLoss("The metadata of the backend holds no signatures.")
        return {k: v for k, v in signatures.signature_def.items() if k != INIT_SIGNATURE}
