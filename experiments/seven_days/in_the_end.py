"""The version of each morning against the first one, on the rows of its day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

from pipelines.ingest.simulate.timeline import DAY
from pipelines.metrics.intervals import auc_difference, auc_interval
from pipelines.refresh.history import History


def comparison(
    folder: Path,
    run: Path,
    mornings: Sequence[int],
    start: int,
    recsys_attn: Callable[..., None],
) -> Table:
    """The AUC of each day, trained once and refreshed daily, with 95 % intervals over users.

    Args:
        folder: The folder of the served rows.
        run: The run folder of the first version.
        mornings: The newest version in the morning of each day.
        start: Midnight before the first day, in Unix seconds.
        recsys_attn: Runs a command.
    """
    history = History.of(run)
    rows = pq.read_table(sorted((folder / "rows").glob("*.parquet")))
    heads = ("day", "rows", "trained once", "refreshed", "version", "difference", "95 %")
    table = Table(*heads, box=None)
    for column in table.columns:
        column.justify = "right"
    for day, version in enumerate(mornings):
        begin = start + day * DAY
        time = rows["timestamp"]
        of_day = rows.filter(pc.and_(pc.greater_equal(time, begin), pc.less(time, begin + DAY)))
        source = folder / "days" / f"{day + 1}.parquet"
        source.parent.mkdir(exist_ok=True)
        pq.write_table(of_day, source)
        scores = []
        for name, scorer in (("once", run), ("refreshed", history.folder(version))):
            target = source.with_name(f"{day + 1}-{name}.parquet")
            recsys_attn("score", scorer, "--run-dir", scorer, "--input", source, "--output", target)
            scores.append(pq.read_table(target)["click_score"].to_numpy())
        labels, users = of_day["click"].to_numpy(), of_day["user_id"].to_numpy()
        once, refreshed = (auc_interval(labels, of, users) for of in scores)
        better = auc_difference(labels, scores[1], scores[0], users)
        table.add_row(
            str(day + 1), f"{of_day.num_rows:,}", f"{once.value:.3f}", f"{refreshed.value:.3f}",
            str(version), f"{better.value:+.3f}", f"{better.low:+.3f} to {better.high:+.3f}",
        )  # fmt: skip
    return table
