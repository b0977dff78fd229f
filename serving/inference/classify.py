"""Classify, Regress and MultiInference: Examples in; classes, or one number each, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    regression_pb2,
)

from serving.common import errors
from serving.common.request import InferenceRequest
from serving.common.signature_names import DEFAULT_SIGNATURE, WITH_CONTEXT
from serving.encoding.tf_examples import fit_examples, serialized, shared_context
from serving.inference.plan import Plan, Results, ref_to, write_spec
from serving.models.model import Model
from serving.models.signature import Signature

CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
_CLASSES, _SCORES = "classes", "scores"


def read_classify(model: Model, message: classification_pb2.ClassificationRequest) -> Plan:
    """Makes the plan of a Classify message."""
    signature = _signature(model, message.model_spec)
    request, count = _request(model, signature, message.input, _check_classify(signature))

    def write(results: Sequence[Results]) -> classification_pb2.ClassificationResponse:
        response = classification_pb2.ClassificationResponse()
        _write_classes(results[0], count, response.result)
        write_spec(response.model_spec, model, signature.key)
        return response

    return Plan((request,), write)


def read_regress(model: Model, message: regression_pb2.RegressionRequest) -> Plan:
    """Makes the plan of a Regress message."""
    signature = _signature(model, message.model_spec)
    request, count = _request(model, signature, message.input, _check_regress(signature))

    def write(results: Sequence[Results]) -> regression_pb2.RegressionResponse:
        response = regression_pb2.RegressionResponse()
        _write_values(results[0], count, response.result)
        write_spec(response.model_spec, model, signature.key)
        return response

    return Plan((request,), write)


def read_multi_inference(model: Model, message: inference_pb2.MultiInferenceRequest) -> Plan:
    """Makes the plan of a MultiInference message, with one result for each task."""
    tasks = [_task(model, task, message) for task in message.tasks]
    requests, count = _requests(model, tasks, message.input)

    def write(results: Sequence[Results]) -> inference_pb2.MultiInferenceResponse:
        response = inference_pb2.MultiInferenceResponse()
        for i, (task, one) in enumerate(zip(message.tasks, tasks, strict=True)):
            shared = results[i if len(results) > 1 else 0]
            outputs = {name: shared[output] for name, output in one.outputs.items()}
            result = response.results.add()
            if task.method_name == CLASSIFY_METHOD:
                _write_classes(outputs, count, result.classification_result)
            else:
                _write_values(outputs, count, result.regression_result)
            write_spec(result.model_spec, model, one.signature.key)
        return response

    return Plan(requests, write)


def _signature(model: Model, spec: model_pb2.ModelSpec) -> Signature:
    key = spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures.get(key)
    if signature is None:
        raise errors.no_signature(key)
    return signature


class _Task(NamedTuple):
    """One task: its signature, and its outputs by their names in the signature that computes it."""

    signature: Signature
    outputs: Mapping[str, str]


def _task(
    model: Model,
    task: inference_pb2.InferenceTask,
    message: inference_pb2.MultiInferenceRequest,
) -> _Task:
    """Checks one task, before anything is computed."""
    if not task.model_spec.name:
        raise errors.empty_model_name()
    if task.model_spec.name != message.tasks[0].model_spec.name:  # a warm-up may have its own name
        raise errors.different_models()
    key = task.model_spec.signature_name or DEFAULT_SIGNATURE
    keys = [other.model_spec.signature_name or DEFAULT_SIGNATURE for other in message.tasks]
    if keys.count(key) > 1:
        raise errors.duplicate_signature(key)
    signature = _signature(model, task.model_spec)
    if task.method_name == CLASSIFY_METHOD:
        names = _check_classify(signature)
    elif task.method_name == REGRESS_METHOD:
        names = _check_regress(signature)
    else:
        raise errors.unsupported_method(task.method_name)
    return _Task(signature, {name: name for name in names})


def _requests(
    model: Model, tasks: list[_Task], examples: input_pb2.Input
) -> tuple[tuple[InferenceRequest, ...], int]:
    """Makes one request if one signature has the outputs of all tasks, else one for each task.

    The entries of `wanted` then name their outputs as that signature does.
    """
    common_signature = model.common_signature([one.signature for one in tasks]) if tasks else None
    if common_signature is None:
        requests = [_request(model, one.signature, examples, tuple(one.outputs)) for one in tasks]
        return tuple(request for request, _ in requests), requests[0][1] if requests else 0
    tasks[:] = [
        one._replace(
            outputs={name: common_signature.output_of(one.signature, name) for name in one.outputs}
        )
        for one in tasks
    ]
    outputs = dict.fromkeys(output for one in tasks for output in one.outputs.values())
    request, count = _request(model, common_signature, examples, tuple(outputs))
    return (request,), count


def _request(
    model: Model, signature: Signature, examples: input_pb2.Input, outputs: tuple[str, ...]
) -> tuple[InferenceRequest, int]:
    """Makes the request for a signature of Examples; returns their number too."""
    if model.takes_missing:
        fit_examples(examples, model.features)
    split_signature = model.signatures.get(signature.key + WITH_CONTEXT)
    shared = None if split_signature is None else shared_context(examples, model.context_names)
    if split_signature is not None and shared is not None:
        context, candidates = shared
        inputs = {"context": context, "examples": candidates}
        return InferenceRequest(ref_to(model), split_signature.key, inputs, outputs), len(
            candidates
        )
    rows = serialized(examples)
    return InferenceRequest(ref_to(model), signature.key, {"inputs": rows}, outputs), len(rows)


def _write_classes(
    outputs: Results, count: int, result: classification_pb2.ClassificationResult
) -> None:
    for name, values in outputs.items():
        _check_table(name, values, count)
    sizes = {name: values.shape[1] for name, values in outputs.items()}
    if len(set(sizes.values())) > 1:
        raise errors.different_classes(sizes[_CLASSES], sizes[_SCORES])
    columns = {name: values.tolist() for name, values in outputs.items()}
    for i in range(count):
        classes = result.classifications.add().classes
        for c in range(next(iter(sizes.values()))):
            one = classes.add()
            if _CLASSES in columns:
                one.label = _text(columns[_CLASSES][i][c])
            if _SCORES in columns:
                one.score = columns[_SCORES][i][c]


def _write_values(outputs: Results, count: int, result: regression_pb2.RegressionResult) -> None:
    (values,) = outputs.values()
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise errors.wrong_regression_shape(values.shape)
    if values.shape[0] != count:
        raise errors.wrong_regression_size(count, values.shape[0])
    if values.dtype != np.float32:
        raise errors.wrong_output_dtype("output", "DT_FLOAT", values.dtype)
    for value in values.ravel().tolist():
        result.regressions.add(value=value)


def _check_classify(signature: Signature) -> tuple[str, ...]:
    definition = signature.definition
    if definition.method_name != CLASSIFY_METHOD:
        raise errors.wrong_method("classification", CLASSIFY_METHOD, definition.method_name)
    if len(definition.inputs) != 1:
        raise errors.InvalidArgument("Expected one input Tensor.")
    if len(definition.outputs) not in (1, 2):
        raise errors.InvalidArgument(
            f"Expected one or two output Tensors, found {len(definition.outputs)}"
        )
    if "inputs" not in definition.inputs:
        raise errors.no_inputs("classification", definition)
    outputs = tuple(name for name in (_CLASSES, _SCORES) if name in definition.outputs)
    if not outputs:
        raise errors.no_classes(definition)
    return outputs


def _check_regress(signature: Signature) -> tuple[str, ...]:
    definition = signature.definition
    if definition.method_name != REGRESS_METHOD:
        raise errors.wrong_method("regression", REGRESS_METHOD, definition.method_name)
    if len(definition.inputs) != 1:
        raise errors.InvalidArgument("Expected one input Tensor.")
    if len(definition.outputs) != 1:
        raise errors.InvalidArgument("Expected one output Tensor.")
    if "inputs" not in definition.inputs:
        raise errors.no_inputs("regression", definition)
    if "outputs" not in definition.outputs:
        raise errors.no_regression_outputs(definition)
    return ("outputs",)


def _check_table(name: str, values: np.ndarray, count: int) -> None:
    if values.ndim != 2:
        raise errors.wrong_class_shape(values.shape)
    dtype, enum = (np.object_, "DT_STRING") if name == _CLASSES else (np.float32, "DT_FLOAT")
    if values.dtype != dtype:
        raise errors.wrong_output_dtype(name, enum, values.dtype)
    if values.shape[0] != count:
        raise errors.wrong_class_count(name, count, values.shape[0])


def _text(label: bytes) -> str:
    return label.decode(errors="replace")  # a label is text to protobuf; bytes that are none, not
