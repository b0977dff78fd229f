"""Rank: one context and its candidates as work for a signature, and its results as the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.call import Call
from serving.columns import MAX_PADDED_ELEMENTS, Target
from serving.errors import FailedPrecondition, InvalidArgument
from serving.features import TensorSpec, check_names
from serving.model import Model
from serving.predict import Task, write_spec
from serving.protos import scoring_pb2
from serving.signature import (
    DEFAULT_SIGNATURE,
    EXPLAINED_SIGNATURE,
    RANK_SIGNATURE,
    Signature,
)

_ATTENTION, _GATE = "attention/", "gate/"  # what the outputs of an explanation begin with
_CONTEXT, _CANDIDATES = "the context", "the candidates"


def rank(model: Model, request: scoring_pb2.RankRequest, call: Call) -> scoring_pb2.RankResponse:
    """The answer of a version to a Rank request."""
    task = read_rank(model, request)
    return write_rank(model, task.signature, request, task.run(call))


def read_rank(model: Model, request: scoring_pb2.RankRequest) -> Task:
    """The task of a request.

    Its signature is `rank`, or `rank_explained`, which compute the context once. A model without
    them scores the candidates as rows of `serving_default`, each with the whole context.

    Raises:
        InvalidArgument: A feature or an option of the request does not fit the model.
        FailedPrecondition: The model can neither rank nor score rows, or not explain.
    """
    if request.model_spec.signature_name:
        raise InvalidArgument(
            "Rank chooses the signature itself: `model_spec.signature_name` must be empty. "
            f"Received: {request.model_spec.signature_name!r}"
        )
    if request.top_k < 0:
        raise InvalidArgument(f"`top_k` must not be negative. Received: {request.top_k}")
    for name in sorted(set(request.context) & set(request.candidates)):
        raise InvalidArgument(f"Feature {name!r} is in both the context and the candidates.")
    signature = _signature(model, request.explain)
    inputs = _shared(signature, request) if signature.candidate_names else _rows(signature, request)
    tasks = _tasks(signature)
    if not tasks:
        raise FailedPrecondition(
            f"Model {model.name!r} has no output with one number for each candidate. "
            f"Outputs: {', '.join(sorted(signature.definition.outputs))}"
        )
    if request.rank_by and request.rank_by not in tasks:
        raise InvalidArgument(
            f"`rank_by` must be one of the tasks {', '.join(tasks)}. Received: {request.rank_by!r}"
        )
    explanation = [name for name in signature.definition.outputs if _explains(name, signature)]
    return Task(signature, inputs, (*tasks, *explanation))


def write_rank(
    model: Model,
    signature: Signature,
    request: scoring_pb2.RankRequest,
    results: Mapping[str, np.ndarray],
) -> scoring_pb2.RankResponse:
    """The answer, which names the version that computed it.

    Args:
        model: The version.
        signature: Of the task.
        request: What was asked.
        results: What the task gave.

    Raises:
        FailedPrecondition: An output has not one number for each candidate.
    """
    response = scoring_pb2.RankResponse()
    write_spec(response.model_spec, model, signature.key)
    scores = {name: value for name, value in results.items() if not _explains(name, signature)}
    counts = {name: np.size(value) for name, value in scores.items()}
    if len(set(counts.values())) > 1:
        raise FailedPrecondition(
            f"Model {model.name!r} must give one number for each candidate. Received: {counts}"
        )
    scores = {name: np.ravel(value) for name, value in scores.items()}
    for name, values in scores.items():
        response.scores[name].values.extend(values.astype("float32").tolist())
    best = -scores[request.rank_by or min(scores)].astype("float64")
    order = np.argsort(best, kind="stable")  # what is not a number comes last
    response.ranking.extend(order[: request.top_k or None].tolist())
    if signature.key == EXPLAINED_SIGNATURE:
        _write_explanation(response.explanation, request, results)
    return response


def _write_explanation(
    explanation: scoring_pb2.Explanation,
    request: scoring_pb2.RankRequest,
    results: Mapping[str, np.ndarray],
) -> None:
    # What was padded, here or to the length of others in a batch, is no event.
    longest = max((_length(column) for column in request.context.values()), default=0)
    for name, value in results.items():
        if name.startswith(_ATTENTION):
            weights = value[0][:, :longest]
            target = explanation.attention[name.removeprefix(_ATTENTION)]
        elif name.startswith(_GATE):
            weights, target = value[0], explanation.gates[name.removeprefix(_GATE)]
        else:
            continue
        target.width = weights.shape[1]
        target.values.extend(np.ravel(weights).tolist())


def _length(column: scoring_pb2.Column) -> int:
    kind = column.WhichOneof("values")
    return len(getattr(column, kind).values) if kind else 0


def _signature(model: Model, explain: bool) -> Signature:
    found = model.signatures
    ranks = RANK_SIGNATURE in found and found[RANK_SIGNATURE].candidate_names
    if explain:
        if EXPLAINED_SIGNATURE not in found or not ranks:
            raise FailedPrecondition(
                f"Model {model.name!r} version {model.version} cannot explain its scores: it has "
                f"no signature {EXPLAINED_SIGNATURE!r}, which is exported with a model that "
                "attends to past events or weighs experts. Ask without `explain`."
            )
        return found[EXPLAINED_SIGNATURE]
    return found[RANK_SIGNATURE] if ranks else model.signature(DEFAULT_SIGNATURE)


def _shared(signature: Signature, request: scoring_pb2.RankRequest) -> dict[str, np.ndarray]:
    """Arrays (1, ...) of the context and (1, N, ...) of the candidates."""
    of_candidates = signature.candidate_names
    context = {n: s for n, s in _specs(signature).items() if n not in of_candidates}
    candidates = {n: s for n, s in _specs(signature).items() if n in of_candidates}
    _check_side(request.context, context, candidates, _CONTEXT, _CANDIDATES)
    _check_side(request.candidates, candidates, context, _CANDIDATES, _CONTEXT)
    arrays = _candidates(request, candidates, leading_axes=2)
    count = _count(arrays)
    arrays |= _absent(signature, candidates, arrays, count, leading_axes=2)
    arrays = {name: array[np.newaxis] for name, array in arrays.items()}
    arrays |= _context(request, context)
    return arrays | _absent(signature, context, arrays, 1, leading_axes=1)


def _rows(signature: Signature, request: scoring_pb2.RankRequest) -> dict[str, np.ndarray]:
    """Arrays (N, ...) of rows, each a candidate with the whole context."""
    specs = _specs(signature)
    check_names(request.context, specs, _CONTEXT)
    check_names(request.candidates, specs, _CANDIDATES)
    arrays = _candidates(request, specs, leading_axes=1)
    count = _count(arrays)
    for name, array in _context(request, specs).items():
        if array.size * count > MAX_PADDED_ELEMENTS:
            raise InvalidArgument(
                f"Feature {name!r} of {_CONTEXT}: {array.size} values are too many to be repeated "
                f"for {count} candidates, as a model without the signature {RANK_SIGNATURE!r} "
                f"needs it ({MAX_PADDED_ELEMENTS} in all). Send fewer candidates at once."
            )
        arrays[name] = np.repeat(array, count, axis=0)
    return arrays | _absent(signature, specs, arrays, count, leading_axes=1)


def _candidates(
    request: scoring_pb2.RankRequest, specs: Mapping[str, TensorSpec], leading_axes: int
) -> dict[str, np.ndarray]:
    return {
        name: Target.of(name, specs[name], leading_axes).array(column, _CANDIDATES, one_row=False)
        for name, column in request.candidates.items()
    }


def _context(
    request: scoring_pb2.RankRequest, specs: Mapping[str, TensorSpec]
) -> dict[str, np.ndarray]:
    arrays = {
        name: Target.of(name, specs[name], 1).array(column, _CONTEXT, one_row=True)
        for name, column in request.context.items()
    }
    for name, array in arrays.items():
        if len(array) != 1:
            what = "lists" if array.ndim > 1 else "values"
            raise InvalidArgument(
                f"Feature {name!r} of {_CONTEXT}: expected one row. Received: {len(array)} {what}"
            )
    return arrays


def _absent(
    signature: Signature,
    specs: Mapping[str, TensorSpec],
    sent: Iterable[str],
    rows: int,
    leading_axes: int,
) -> dict[str, np.ndarray]:
    """The missing values of what was not sent and has no default in the signature."""
    known = {*sent, *signature.definition.defaults}
    return {
        name: Target.of(name, spec, leading_axes).absent(rows)
        for name, spec in specs.items()
        if name not in known
    }


def _count(arrays: Mapping[str, np.ndarray]) -> int:
    """How many candidates there are: the rows of every column."""
    counts = {name: len(array) for name, array in sorted(arrays.items())}
    if not any(counts.values()):
        raise InvalidArgument("`candidates` must hold at least one candidate. Received: none")
    if len(set(counts.values())) > 1:
        raise InvalidArgument(
            f"Features of {_CANDIDATES} must have one row for each candidate. Received: {counts}"
        )
    return next(iter(counts.values()))


def _check_side(
    names: Iterable[str],
    own: Mapping[str, TensorSpec],
    other: Mapping[str, TensorSpec],
    where: str,
    elsewhere: str,
) -> None:
    for name in names:
        if name in other:
            raise InvalidArgument(f"Feature {name!r} belongs to {elsewhere}. Received in {where}.")
    check_names(names, own, where)


def _specs(signature: Signature) -> dict[str, TensorSpec]:
    definition = signature.definition
    return {name: TensorSpec.from_proto(info) for name, info in definition.inputs.items()}


def _tasks(signature: Signature) -> list[str]:
    """The outputs that have one number for each candidate, sorted."""
    return [
        name
        for name, info in sorted(signature.definition.outputs.items())
        if not _explains(name, signature) and _is_score(info, bool(signature.candidate_names))
    ]


def _is_score(info: meta_graph_pb2.TensorInfo, per_request: bool) -> bool:
    spec = TensorSpec.from_proto(info)
    if spec.numpy_dtype is None or spec.numpy_dtype.kind != "f":
        return False
    if spec.shape is None:
        return True
    return len(spec.shape) == 1 + per_request or spec.shape[1 + per_request :] == (1,)


def _explains(output: str, signature: Signature) -> bool:
    return signature.key == EXPLAINED_SIGNATURE and output.startswith((_ATTENTION, _GATE))
