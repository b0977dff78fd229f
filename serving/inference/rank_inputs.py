"""The columns of a RankRequest as arrays for a signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from serving.common.errors import InvalidArgument
from serving.common.signature_names import RANK_SIGNATURE
from serving.encoding.features import TensorSpec, check_histories, check_names, check_side
from serving.encoding.rank_columns import MAX_PADDED_ELEMENTS, InputSpec
from serving.models.signature import Signature
from serving.protos import scoring_pb2

_CONTEXT, _CANDIDATES = "the context", "the candidates"


def rank_inputs(signature: Signature, message: scoring_pb2.RankRequest) -> dict[str, np.ndarray]:
    """Returns one array for each input; features that were not sent are missing.

    Args:
        signature: One that knows the inputs of candidates takes the context once; any other takes
            rows, each a candidate with the whole context.
        message: A message that nothing has checked yet.

    Raises:
        InvalidArgument: A feature is unknown, on the wrong side, or its column does not fit.
    """
    for name in sorted(set(message.context) & set(message.candidates)):
        raise InvalidArgument(f"Feature {name!r} is in both the context and the candidates.")
    return (
        _request_arrays(signature, message)
        if signature.candidate_names
        else _row_arrays(signature, message)
    )


def _request_arrays(
    signature: Signature, message: scoring_pb2.RankRequest
) -> dict[str, np.ndarray]:
    """Arrays (1, ...) of the context and (1, N, ...) of the candidates."""
    of_candidates = signature.candidate_names
    context = {n: s for n, s in signature.input_specs.items() if n not in of_candidates}
    candidates = {n: s for n, s in signature.input_specs.items() if n in of_candidates}
    check_side(message.context, context, candidates, _CONTEXT, _CANDIDATES)
    check_side(message.candidates, candidates, context, _CANDIDATES, _CONTEXT)
    arrays = _candidates(message, candidates, leading_axes=2)
    count = _count(arrays)
    arrays |= _missing_arrays(signature, candidates, arrays, count, leading_axes=2)
    arrays = {name: array[np.newaxis] for name, array in arrays.items()}
    arrays |= _context(message, context)
    return arrays | _missing_arrays(signature, context, arrays, 1, leading_axes=1)


def _row_arrays(signature: Signature, message: scoring_pb2.RankRequest) -> dict[str, np.ndarray]:
    """Arrays (N, ...) of rows, each a candidate with the whole context."""
    specs = signature.input_specs
    check_names(message.context, specs, _CONTEXT)
    check_names(message.candidates, specs, _CANDIDATES)
    arrays = _candidates(message, specs, leading_axes=1)
    count = _count(arrays)
    _check_events(message.candidates, specs, count, "candidate {}")
    for name, array in _context(message, specs).items():
        if array.size * count > MAX_PADDED_ELEMENTS:
            raise InvalidArgument(
                f"Feature {name!r} of {_CONTEXT}: {array.size} values are too many to be repeated "
                f"for {count} candidates, as a model without the signature {RANK_SIGNATURE!r} "
                f"needs it ({MAX_PADDED_ELEMENTS} in all). Send fewer candidates at once."
            )
        arrays[name] = np.repeat(array, count, axis=0)
    return arrays | _missing_arrays(signature, specs, arrays, count, leading_axes=1)


def _candidates(
    message: scoring_pb2.RankRequest, specs: Mapping[str, TensorSpec], leading_axes: int
) -> dict[str, np.ndarray]:
    return {
        name: InputSpec.of(name, specs[name], leading_axes).array(
            column, _CANDIDATES, one_row=False
        )
        for name, column in message.candidates.items()
    }


def _context(
    message: scoring_pb2.RankRequest, specs: Mapping[str, TensorSpec]
) -> dict[str, np.ndarray]:
    arrays = {
        name: InputSpec.of(name, specs[name], 1).array(column, _CONTEXT, one_row=True)
        for name, column in message.context.items()
    }
    for name, array in arrays.items():
        if len(array) != 1:
            kind = "lists" if array.ndim > 1 else "values"
            raise InvalidArgument(
                f"Feature {name!r} of {_CONTEXT}: expected one row. Received: {len(array)} {kind}"
            )
    _check_events(message.context, specs, 1, _CONTEXT)
    return arrays


def _check_events(
    columns: Mapping[str, scoring_pb2.Column],
    specs: Mapping[str, TensorSpec],
    rows: int,
    side: str,
) -> None:
    """Checks that the lists of one history are equally long in each row."""

    def lengths(name: str) -> Sequence[int] | np.ndarray:
        if name not in columns:
            return [0] * rows
        one_row = side == _CONTEXT
        return InputSpec.of(name, specs[name], 1).lengths(columns[name], one_row=one_row)

    check_histories(specs, lengths, side)


def _missing_arrays(
    signature: Signature,
    specs: Mapping[str, TensorSpec],
    sent: Iterable[str],
    rows: int,
    leading_axes: int,
) -> dict[str, np.ndarray]:
    """Returns the missing values of features that were not sent and have no default."""
    present = {*sent, *signature.definition.defaults}
    return {
        name: InputSpec.of(name, spec, leading_axes).missing_rows(rows)
        for name, spec in specs.items()
        if name not in present
    }


def _count(arrays: Mapping[str, np.ndarray]) -> int:
    """Returns the number of candidates: the rows of every column."""
    counts = {name: len(array) for name, array in sorted(arrays.items())}
    if not any(counts.values()):
        raise InvalidArgument("`candidates` must hold at least one candidate. Received: none")
    if len(set(counts.values())) > 1:
        raise InvalidArgument(
            f"Features of {_CANDIDATES} must have one row for each candidate. Received: {counts}"
        )
    return next(iter(counts.values()))
