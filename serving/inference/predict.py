"""Predict: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_serving.apis import predict_pb2

from serving.common.request import InferenceRequest
from serving.common.signature_names import DEFAULT_SIGNATURE
from serving.encoding.codec import decode, encode
from serving.inference.plan import Plan, Results, ref_to, write_spec
from serving.models.model import Model


def read_predict(model: Model, message: predict_pb2.PredictRequest) -> Plan:
    """Makes the plan of a Predict message; decodes its tensors once their names are checked."""
    signature = model.signature(message.model_spec.signature_name or DEFAULT_SIGNATURE)
    signature.check_names(message.inputs)
    outputs = signature.select(tuple(message.output_filter))
    inputs = {name: decode(name, proto) for name, proto in message.inputs.items()}
    request = InferenceRequest(ref_to(model), signature.key, inputs, outputs)

    def write(results: Sequence[Results]) -> predict_pb2.PredictResponse:
        response = predict_pb2.PredictResponse()
        write_spec(response.model_spec, model, signature.key)
        for name, value in results[0].items():
            encode(value, response.outputs[name])
        return response

    return Plan((request,), write)
