"""Classify, Regress and MultiInference: Examples in; classes, or one number each, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    regression_pb2,
)

from serving.common.errors import FailedPrecondition, InvalidArgument, Unimplemented
from serving.common.request import InferenceRequest
from serving.common.signature_names import DEFAULT_SIGNATURE, WITH_CONTEXT
from serving.encoding.tf_examples import fit_examples, serialized, shared_context
from serving.inference.plan import Plan, Results, ref_to, write_spec
from serving.models.model import Model
from serving.models.signature import Signature

CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
_CLASSES, _SCORES = "classes", "scores"
_TABLE_DTYPES = {_CLASSES: (np.object_, "DT_STRING"), _SCORES: (np.float32, "DT_FLOAT")}


def read_classify(model: Model, message: classification_pb2.ClassificationRequest) -> Plan:
    """Makes the plan of a Classify message."""
    kind = classification_pb2.ClassificationResponse
    return _plan(model, message, _check_classify, kind, _write_classes)


def read_regress(model: Model, message: regression_pb2.RegressionRequest) -> Plan:
    """Makes the plan of a Regress message."""
    return _plan(model, message, _check_regress, regression_pb2.RegressionResponse, _write_values)


def _plan(
    model: Model,
    message: Any,
    check: Callable[[Signature], tuple[str, ...]],
    kind: type[Any],
    write_result: Callable[[Results, int, Any], None],
) -> Plan:
    signature = _signature(model, message.model_spec)
    request, count = _request(model, signature, message.input, check(signature))

    def write(results: Sequence[Results]) -> Any:
        response = kind()
        write_result(results[0], count, response.result)
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
        raise InvalidArgument(f"No signature was found with the name: {key}")
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
        raise InvalidArgument("Found ModelSpec with an empty model name.")
    if task.model_spec.name != message.tasks[0].model_spec.name:  # a warm-up may have its own name
        raise InvalidArgument(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    key = task.model_spec.signature_name or DEFAULT_SIGNATURE
    keys = [other.model_spec.signature_name or DEFAULT_SIGNATURE for other in message.tasks]
    if keys.count(key) > 1:
        raise InvalidArgument(f"Duplicate evaluation of signature: {key}")
    signature = _signature(model, task.model_spec)
    if task.method_name == CLASSIFY_METHOD:
        names = _check_classify(signature)
    elif task.method_name == REGRESS_METHOD:
        names = _check_regress(signature)
    else:
        raise Unimplemented(f"Unsupported signature method_name: {task.method_name}")
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
        raise InvalidArgument(
            "Tensors class and score should match in dim_size(1). "
            f"Got {sizes[_CLASSES]} vs. {sizes[_SCORES]}"
        )
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
        raise InvalidArgument(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{_shape(values)}"
        )
    if values.shape[0] != count:
        raise InvalidArgument(
            f"Input batch size did not match output batch size: {count} vs. {values.shape[0]}"
        )
    _require_dtype("output", values, np.float32, "DT_FLOAT")
    for value in values.ravel().tolist():
        result.regressions.add(value=value)


def _check_classify(signature: Signature) -> tuple[str, ...]:
    """Returns the outputs of a signature for Classify."""
    definition, count = signature.definition, len(signature.definition.outputs)
    problem = "" if count in (1, 2) else f"Expected one or two output Tensors, found {count}"
    _check_definition(signature, "classification", CLASSIFY_METHOD, problem)
    outputs = tuple(name for name in (_CLASSES, _SCORES) if name in definition.outputs)
    if not outputs:
        raise FailedPrecondition(
            'Expected classification signature outputs to contain at least one of "classes" or '
            f'"scores". Signature was: {definition}'
        )
    return outputs


def _check_regress(signature: Signature) -> tuple[str, ...]:
    """Returns the output of a signature for Regress."""
    definition = signature.definition
    problem = "" if len(definition.outputs) == 1 else "Expected one output Tensor."
    _check_definition(signature, "regression", REGRESS_METHOD, problem)
    if "outputs" not in definition.outputs:
        raise FailedPrecondition(f"No regression outputs found in SignatureDef: {definition}")
    return ("outputs",)


def _check_definition(signature: Signature, kind: str, method: str, problem: str) -> None:
    """Checks the method and the input of a signature; `problem` is the fault of its outputs."""
    definition = signature.definition
    if definition.method_name != method:
        raise InvalidArgument(
            f"Expected {kind} signature method_name to be {method}. Was: {definition.method_name}"
        )
    if len(definition.inputs) != 1:
        raise InvalidArgument("Expected one input Tensor.")
    if problem:
        raise InvalidArgument(problem)
    if "inputs" not in definition.inputs:
        raise FailedPrecondition(f"No {kind} inputs found in SignatureDef: {definition}")


def _check_table(name: str, values: np.ndarray, count: int) -> None:
    if values.ndim != 2:
        raise InvalidArgument(
            f"Expected Tensor shape: [batch_size num_classes] but got {_shape(values)}"
        )
    _require_dtype(name, values, *_TABLE_DTYPES[name])
    if values.shape[0] != count:
        raise InvalidArgument(
            f"Expected {name} output batch size of {count}. Got: {values.shape[0]}"
        )


def _require_dtype(name: str, values: np.ndarray, dtype: Any, enum: str) -> None:
    if values.dtype != dtype:
        raise InvalidArgument(f"Expected {name} Tensor of {enum}. Got: {values.dtype}")


def _shape(values: np.ndarray) -> str:
    return "[" + ",".join(map(str, values.shape)) + "]"


def _text(label: bytes) -> str:
    return label.decode(errors="replace")  # a label is text to protobuf; bytes that are none, not
