"""Classify, Regress and MultiInference: Examples in; classes, or one number each, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    regression_pb2,
)

from serving.common import errors
from serving.common.call import Call
from serving.common.signatures import DEFAULT_SIGNATURE, WITH_CONTEXT
from serving.encoding.tf_examples import serialized, shared_context
from serving.inference.predict import Task, write_spec
from serving.models.model import Model
from serving.models.signature import Signature

CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
_CLASSES, _SCORES = "classes", "scores"


async def classify(
    model: Model, request: classification_pb2.ClassificationRequest, call: Call
) -> Any:
    """The answer of a version to a Classify request."""
    signature = _signature(model, request.model_spec)
    found = await _run(model, signature, request.input, _check_classify(signature), call)
    response = classification_pb2.ClassificationResponse()
    _write_classes(found, call.candidates, response.result)
    write_spec(response.model_spec, model, signature.key)
    return response


async def regress(model: Model, request: regression_pb2.RegressionRequest, call: Call) -> Any:
    """The answer of a version to a Regress request."""
    signature = _signature(model, request.model_spec)
    found = await _run(model, signature, request.input, _check_regress(signature), call)
    response = regression_pb2.RegressionResponse()
    _write_values(found, call.candidates, response.result)
    write_spec(response.model_spec, model, signature.key)
    return response


async def multi_inference(
    model: Model, request: inference_pb2.MultiInferenceRequest, call: Call
) -> Any:
    """The answer of a version to a MultiInference request: one result for each task."""
    wanted = [_requested(model, task, request) for task in request.tasks]
    computed = await _run_together(model, wanted, request.input, call)
    response = inference_pb2.MultiInferenceResponse()
    for task, (signature, _), found in zip(request.tasks, wanted, computed, strict=True):
        result = response.results.add()
        if task.method_name == CLASSIFY_METHOD:
            _write_classes(found, call.candidates, result.classification_result)
        else:
            _write_values(found, call.candidates, result.regression_result)
        write_spec(result.model_spec, model, signature.key)
    return response


def _signature(model: Model, spec: model_pb2.ModelSpec) -> Signature:
    key = spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures.get(key)
    if signature is None:
        raise errors.no_signature(key)
    return signature


def _requested(
    model: Model,
    task: inference_pb2.InferenceTask,
    request: inference_pb2.MultiInferenceRequest,
) -> tuple[Signature, tuple[str, ...]]:
    """The signature of one task, checked before anything is computed, and what it gives."""
    if not task.model_spec.name:
        raise errors.empty_model_name()
    if task.model_spec.name != request.tasks[0].model_spec.name:  # it may be a warm-up's own name
        raise errors.different_models()
    key = task.model_spec.signature_name or DEFAULT_SIGNATURE
    keys = [other.model_spec.signature_name or DEFAULT_SIGNATURE for other in request.tasks]
    if keys.count(key) > 1:
        raise errors.duplicate_signature(key)
    signature = _signature(model, task.model_spec)
    if task.method_name == CLASSIFY_METHOD:
        return signature, _check_classify(signature)
    if task.method_name == REGRESS_METHOD:
        return signature, _check_regress(signature)
    raise errors.unsupported_method(task.method_name)


def _write_classes(
    found: Mapping[str, np.ndarray], count: int, result: classification_pb2.ClassificationResult
) -> None:
    for name, values in found.items():
        _check_table(name, values, count)
    sizes = {name: values.shape[1] for name, values in found.items()}
    if len(set(sizes.values())) > 1:
        raise errors.different_classes(sizes[_CLASSES], sizes[_SCORES])
    columns = {name: values.tolist() for name, values in found.items()}
    for i in range(count):
        classes = result.classifications.add().classes
        for c in range(next(iter(sizes.values()))):
            one = classes.add()
            if _CLASSES in columns:
                one.label = _text(columns[_CLASSES][i][c])
            if _SCORES in columns:
                one.score = columns[_SCORES][i][c]


def _write_values(
    found: Mapping[str, np.ndarray], count: int, result: regression_pb2.RegressionResult
) -> None:
    (values,) = found.values()
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise errors.wrong_regression_shape(values.shape)
    if values.shape[0] != count:
        raise errors.wrong_regression_size(count, values.shape[0])
    if values.dtype != np.float32:
        raise errors.wrong_output_dtype("output", "DT_FLOAT", values.dtype)
    for value in values.ravel().tolist():
        result.regressions.add(value=value)


async def _run_together(
    model: Model,
    wanted: Sequence[tuple[Signature, tuple[str, ...]]],
    examples: input_pb2.Input,
    call: Call,
) -> list[dict[str, np.ndarray]]:
    """These outputs of each signature; in one computation where one signature has all of them."""
    covering = model.covering([signature for signature, _ in wanted])
    if covering is None:
        return [await _run(model, signature, examples, names, call) for signature, names in wanted]
    known_as = [
        {name: covering.output_of(signature, name) for name in names} for signature, names in wanted
    ]
    together = tuple(dict.fromkeys(own for names in known_as for own in names.values()))
    found = await _run(model, covering, examples, together, call)
    return [{name: found[own] for name, own in names.items()} for names in known_as]


async def _run(
    model: Model,
    signature: Signature,
    examples: input_pb2.Input,
    outputs: tuple[str, ...],
    call: Call,
) -> dict[str, np.ndarray]:
    apart = model.signatures.get(signature.key + WITH_CONTEXT)
    if apart is not None:
        shared = shared_context(examples, model.context_names)
        if shared is not None:
            context, candidates = shared
            return await Task(apart, {"context": context, "examples": candidates}, outputs).run(
                call
            )
    return await Task(signature, {"inputs": serialized(examples)}, outputs).run(call)


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
