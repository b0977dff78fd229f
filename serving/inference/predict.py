"""Predict: tensors in, tensors out."""

from __future__ import annotations

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
    return Plan((request,), lambda results: write_predict(model, signature.key, results[0]))


def write_predict(model: Model, signature: str, results: Results) -> predict_pb2.PredictResponse:
    """Encodes the outputs as tensors."""
    response = predict_pb2.PredictResponse()
    write_spec(response.model_spec, model, signature)
    for name, value in results.items():
        encode(value, response.outputs[name])
    return response
