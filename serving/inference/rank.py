"""Rank: one context and its candidates in, scores and their order out."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from serving.common.errors import FailedPrecondition, InvalidArgument
from serving.common.request import InferenceRequest
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import (
    ATTENTION_PREFIX,
    DEFAULT_SIGNATURE,
    EXPLAINED_SIGNATURE,
    FIELD_PREFIX,
    GATE_PREFIX,
    RANK_SIGNATURE,
    STATE_PREFIX,
    first_task,
)
from serving.encoding.array_values import is_present
from serving.encoding.features import TensorSpec
from serving.inference.plan import Plan, Results, ref_to, write_spec
from serving.inference.rank_inputs import rank_inputs
from serving.models.model import Model
from serving.models.signature import Signature
from serving.protos import scoring_pb2


def read_rank(model: Model, message: scoring_pb2.RankRequest) -> Plan:
    """Makes the plan of a Rank message.

    Its signature is `rank`, or `rank_explained`, which compute the context once. A model without
    them scores the candidates as rows of `serving_default`, each with the whole context.

    Raises:
        InvalidArgument: A feature or an option of the message does not fit the model.
        FailedPrecondition: The model can neither rank nor score rows, or not explain.
    """
    if message.model_spec.signature_name:
        raise InvalidArgument(
            "Rank chooses the signature itself: `model_spec.signature_name` must be empty. "
            f"Received: {message.model_spec.signature_name!r}"
        )
    if message.top_k < 0:
        raise InvalidArgument(f"`top_k` must not be negative. Received: {message.top_k}")
    signature = _signature(model, message.explain)
    inputs = rank_inputs(signature, message)
    tasks = _tasks(signature)
    if not tasks:
        raise FailedPrecondition(
            f"Model {model.name!r} has no output with one number for each candidate. "
            f"Outputs: {', '.join(sorted(signature.definition.outputs))}"
        )
    if message.rank_by and message.rank_by not in tasks:
        raise InvalidArgument(
            f"`rank_by` must be one of the tasks {', '.join(tasks)}. Received: {message.rank_by!r}"
        )
    explanation = [name for name in signature.definition.outputs if _explains(name, signature)]
    outputs = (*tasks, *explanation)
    request = InferenceRequest(ref_to(model), signature.key, inputs, outputs)
    return Plan(
        (request,),
        lambda results: write_rank(model, signature, message, results[0]),
        _write_state,
    )


def write_rank(
    model: Model, signature: Signature, message: scoring_pb2.RankRequest, results: Results
) -> scoring_pb2.RankResponse:
    """Makes the answer: scores by task, and the ranking by one of them.

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
    best = -scores[_rank_by(model, message, scores)].astype("float64")
    order = np.argsort(best, kind="stable")  # NaN comes last
    response.ranking.extend(order[: message.top_k or None].tolist())
    if signature.key == EXPLAINED_SIGNATURE:
        stored = [
            array.shape[1] for name, array in results.items() if name.startswith(STATE_PREFIX)
        ]
        longest = max(_longest_list(signature, message), *stored, 0)
        _write_explanation(response.explanation, longest, results)
    return response


def _rank_by(model: Model, message: scoring_pb2.RankRequest, tasks: Collection[str]) -> str:
    """Returns the task that ranks: by default the first of the experiment file, else by name."""
    first = first_task(model.definitions)
    return message.rank_by or (first if first is not None and first in tasks else min(tasks))


def _write_explanation(
    explanation: scoring_pb2.Explanation, longest: int, results: Results
) -> None:
    for name, value in results.items():
        if name.startswith(ATTENTION_PREFIX):
            weights = value[0][:, :longest]  # the rest is padding, of the request or its batch
            target = explanation.attention[name.removeprefix(ATTENTION_PREFIX)]
        elif name.startswith(GATE_PREFIX):
            weights, target = value[0], explanation.gates[name.removeprefix(GATE_PREFIX)]
        elif name.startswith(STATE_PREFIX):
            _write_events(explanation.events[name.removeprefix(STATE_PREFIX)], value[0])
            continue
        elif name.startswith(FIELD_PREFIX):
            explanation.fields[name.removeprefix(FIELD_PREFIX)].values.extend(value[0].tolist())
            continue
        else:
            continue
        target.width = weights.shape[1]
        target.values.extend(np.ravel(weights).tolist())


def _write_events(column: scoring_pb2.Column, values: np.ndarray) -> None:
    """Writes the events of one history; missing ones at the end are padding."""
    present = is_present(values)
    column.missing.extend(np.flatnonzero(~present).tolist())
    if values.dtype.kind == "O":
        column.binaries.values.extend(values.tolist())
    elif values.dtype.kind == "i":
        column.ints.values.extend(np.where(present, values, 0).tolist())
    else:
        column.floats.values.extend(np.where(present, values, 0).tolist())


def _write_state(response: scoring_pb2.RankResponse, trace: RequestTrace) -> None:
    """Writes how a store completed the request."""
    state = trace.state
    if state is None:
        return
    response.state.as_of, response.state.is_degraded = state.as_of, state.is_degraded
    if state.lag_seconds is not None:
        response.state.lag_seconds = state.lag_seconds


def _longest_list(signature: Signature, message: scoring_pb2.RankRequest) -> int:
    """Returns the length of the longest list in the context; a single value is no list."""
    shapes = {name: spec.shape or () for name, spec in signature.input_specs.items()}
    lists = [column for name, column in message.context.items() if None in shapes[name][1:]]
    kinds = [(column, column.WhichOneof("values")) for column in lists]
    return max((len(getattr(column, kind).values) for column, kind in kinds if kind), default=0)


def _signature(model: Model, explain: bool) -> Signature:
    signatures = model.signatures
    ranks = RANK_SIGNATURE in signatures and signatures[RANK_SIGNATURE].candidate_names
    if explain:
        if EXPLAINED_SIGNATURE not in signatures or not ranks:
            raise FailedPrecondition(
                f"Model {model.name!r} version {model.version} cannot explain its scores: it has "
                f"no signature {EXPLAINED_SIGNATURE!r}, which is exported with a model that "
                "weighs past events, fields or experts. Send it without `explain`."
            )
        return signatures[EXPLAINED_SIGNATURE]
    return signatures[RANK_SIGNATURE] if ranks else model.signature(DEFAULT_SIGNATURE)


def _tasks(signature: Signature) -> list[str]:
    """Returns the outputs with one number for each candidate, sorted."""
    return [
        name
        for name, spec in sorted(signature.output_specs.items())
        if not _explains(name, signature) and _is_score(spec, bool(signature.candidate_names))
    ]


def _is_score(spec: TensorSpec, per_request: bool) -> bool:
    if spec.numpy_dtype is None or spec.numpy_dtype.kind != "f":
        return False
    if spec.shape is None:
        return True
    return len(spec.shape) == 1 + per_request or spec.shape[1 + per_request :] == (1,)


def _explains(output: str, signature: Signature) -> bool:
    return signature.key == EXPLAINED_SIGNATURE and output.startswith(
        (ATTENTION_PREFIX, GATE_PREFIX, FIELD_PREFIX, STATE_PREFIX)
    )
