"""A model of next items beside simple rules, on the same drawn candidates.

    recsys-attn run experiments/amazon-toys.toml
    python -m benchmarks.next_items runs/amazon-toys

Reads the test rows and the predictions of a run whose source is `sequences`, and prints HR and NDCG
at 10 of the model and of two rules. Both are counted in the train rows: the popularity of an item,
and item-item neighbours, the sum over the history of the cosine with the candidate, where an item
is the vector of the users who had it. Neighbours of equal score are ranked by popularity; any
others that are equal share their ranks. Intervals are of 95 %, by users drawn with replacement.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from scipy import sparse

from pipelines.features.lists import flatten_list
from pipelines.items import ItemTable

K, DRAWS, AT_ONCE = 10, 1000, 512


def cosines(items: ItemTable, users: sparse.csr_matrix) -> sparse.csr_matrix:
    """Cosines of items `(items, items)` of their users."""
    counts = (users.T @ users).tolil()
    norms = 1 / np.sqrt(np.maximum(counts.diagonal(), 1))
    counts.setdiag(0)
    return sparse.csr_matrix(sparse.diags(norms) @ counts.tocsr() @ sparse.diags(norms))


def matrix(items: ItemTable, rows: np.ndarray, values: pa.Array) -> sparse.csr_matrix:
    """A 1 for each row and item `(rows, items)`; unknown items are left out."""
    columns = items.rows(values)
    known = columns >= 0
    shape = (int(rows.max()) + 1, len(items))
    ones = sparse.csr_matrix((np.ones(known.sum()), (rows[known], columns[known])), shape)
    ones.data[:] = 1
    return ones


def events(table: pa.Table, of: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """The number in `of` and the item of each event of the histories."""
    values, offsets = flatten_list(table["history"].combine_chunks())
    return np.repeat(of, np.diff(offsets)), values


def train_matrix(items: ItemTable, folder: Path) -> sparse.csr_matrix:
    """The items of each user's train rows and their histories."""
    table = pq.read_table(folder, columns=["user", "history", items.key])
    users = np.unique(table["user"].to_numpy(), return_inverse=True)[1]
    rows, values = events(table, users)
    together = pa.concat_arrays([values, table[items.key].combine_chunks()])
    return matrix(items, np.concatenate([rows, users]), together)


def scores(run: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Names and scores `(requests, candidates)`, the positive first."""
    items = ItemTable.load(run / "data")
    if items is None:
        raise SystemExit(f"{run} has no item table; its source must be `sequences`.")
    test = pq.read_table(run / "data" / "test")
    model = pq.read_table(run / "evaluation" / "predictions.parquet")["next/score"].to_numpy()
    request = np.unique(test["request"].to_numpy(), return_inverse=True)[1]
    label = test["next"].to_numpy()
    order = np.lexsort([-label, request])
    first = np.flatnonzero(np.diff(request[order], prepend=-1))
    candidates = items.rows(test[items.key])[order].reshape(len(first), -1)
    popularity = items.positives.astype("float64")
    yield "popularity", popularity[candidates]
    similar = cosines(items, train_matrix(items, run / "data" / "train"))
    requests = test.take(pa.array(order[first]))
    histories = matrix(items, *events(requests, np.arange(len(first))))
    histories.resize(len(first), len(items))
    parts = [
        np.take_along_axis(
            (histories[begin : begin + AT_ONCE] @ similar).toarray(),
            candidates[begin : begin + AT_ONCE],
            axis=1,
        )
        for begin in range(0, len(first), AT_ONCE)
    ]
    ties = 1e-9 * popularity / max(popularity.max(), 1)
    yield "item-item neighbours", np.concatenate(parts) + ties[candidates]
    yield run.name, model[order].reshape(len(first), -1)


def metrics(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """HR and NDCG at K of each request, whose first candidate is the positive."""
    above = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    equal = (scores[:, 1:] == scores[:, :1]).sum(axis=1)
    ranks = np.arange(scores.shape[1])
    hit, gain = (ranks < K).astype("float64"), (ranks < K) / np.log2(ranks + 2)
    sums = [np.concatenate([[0], np.cumsum(values)]) for values in (hit, gain)]
    hr, ndcg = ((total[above + equal + 1] - total[above]) / (equal + 1) for total in sums)
    return hr, ndcg


def interval(values: np.ndarray) -> str:
    """The mean and its interval."""
    rng = np.random.default_rng(0)
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():.4f} ({low:.4f} to {high:.4f})"


def main() -> None:
    """Prints the table of a run folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="folder of an evaluated run")
    table = Table("", f"HR@{K}", f"NDCG@{K}", box=None)
    for name, of_rule in scores(parser.parse_args().run):
        table.add_row(name, *map(interval, metrics(of_rule)))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
