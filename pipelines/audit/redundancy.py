"""The likeness of the heads of a layer."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pipelines.audit.recorder import AttentionRecord, Floats

QUERIES = 1_000  # whose outputs are compared; the kernel matrices have its square
ALIKE = 0.9


class Redundancy(NamedTuple):
    """The likeness of each pair of the N heads of a layer, (N, N).

    Attributes:
        cka: Linear centred kernel alignment of the outputs, without its bias: 1 for outputs that
            are the same up to rotation and scale, about 0 for independent ones.
        outputs, values: Mean cosine of the outputs at a query, and of the values at a key.
        weights: Mean product of the shares of a query, `sum_s a_i a_j`; None without weights.
    """

    cka: Floats
    outputs: Floats
    values: Floats
    weights: Floats | None


class HeadLikeness:
    """Compares the heads of a place, batch by batch.

    Source: CKA: Kornblith et al., "Similarity of Neural Network Representations Revisited",
    ICML 2019, arXiv 1905.00414, with the estimate of HSIC of Song et al., JMLR 2012; the other
    three: Li et al., "Multi-Head Attention with Disagreement Regularization", EMNLP 2018,
    arXiv 1810.10183, the negative of whose means they are.
    """

    def __init__(self) -> None:
        self._vectors: list[Floats] = []
        self._sums: dict[str, list[tuple[Floats, int]]] = defaultdict(list)

    def add(self, record: AttentionRecord) -> None:
        """Adds a batch."""
        outputs = record.output[record.queries]
        if sum(map(len, self._vectors)) < QUERIES:
            self._vectors.append(outputs)
        self._sums["outputs"].append(_cosines(outputs))
        value = np.broadcast_to(record.value, (len(record.keys), *record.value.shape[1:]))
        self._sums["values"].append(_cosines(value[record.keys]))
        if record.weights is not None:
            weights = np.moveaxis(record.weights, 1, 2)[record.queries]  # (queries, N, S)
            self._sums["weights"].append((np.einsum("qis,qjs->ij", weights, weights), len(weights)))

    def redundancy(self) -> Redundancy:
        """The likeness of each pair of heads."""
        vectors = np.concatenate(self._vectors)[:QUERIES].astype(np.float64)
        losses = {
            name: np.sum([part for part, _ in parts], axis=0) / max(sum(n for _, n in parts), 1)
            for name, parts in self._sums.items()
        }
        return Redundancy(cka(np.moveaxis(vectors, 1, 0)), **{"weights": None, **losses})


def _cosines(vectors: Floats) -> tuple[Floats, int]:
    """The sum over all vectors (M, N, V) of the cosines of two heads, and M."""
    length = np.linalg.norm(vectors, axis=2, keepdims=True)
    unit = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.einsum("miv,mjv->ij", unit, unit), len(vectors)


def cka(outputs: Floats) -> Floats:
    """Debiased linear CKA of several representations (N, n, V) of the same n > 3 things.

    `HSIC(K, L) = (tr(KL) + sum(K) sum(L) / ((n-1)(n-2)) - 2 / (n-2) sum(KL)) / (n(n-3))`, with
    zero diagonals, and `CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))`; 0 for a constant one.

    Example:
        >>> import numpy as np
        >>> from pipelines.audit.redundancy import cka
        >>> x = np.random.default_rng(0).normal(size=(50, 4))
        >>> [float(x) for x in cka(np.stack([x, 3 * x[:, ::-1]])).round(3)[0]]
        [1.0, 1.0]
    """
    count = outputs.shape[1]
    kernels = []
    for matrix in outputs - outputs.mean(axis=1, keepdims=True):
        kernel = matrix @ matrix.T
        np.fill_diagonal(kernel, 0)
        kernels.append(kernel)
    heads = len(outputs)
    if count < 4:
        return np.full((heads, heads), np.nan)
    rows = np.array([kernel.sum(axis=1) for kernel in kernels])
    total = rows.sum(axis=1)
    product = np.array([[np.vdot(one, other) for other in kernels] for one in kernels])
    mixed = product + np.outer(total, total) / ((count - 1) * (count - 2))
    hsic = (mixed - 2 / (count - 2) * rows @ rows.T) / (count * (count - 3))
    norms = np.sqrt(np.maximum(np.diag(hsic), 0))
    scale = np.outer(norms, norms)
    return np.divide(hsic, scale, out=np.zeros_like(hsic), where=scale > 0)


def most_alike(redundancy: Redundancy, head: int) -> tuple[int, float] | None:
    """The other head whose outputs are the most alike, and the CKA.

    None for a single head, and where the rows are too few for a CKA.
    """
    known = np.flatnonzero(~np.isnan(redundancy.cka[head]))
    others = [int(other) for other in known if other != head]
    if not others:
        return None
    other = max(others, key=lambda number: redundancy.cka[head, number])
    return other, float(redundancy.cka[head, other])
