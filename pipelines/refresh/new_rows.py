"""The rows of a refresh: files that no version behind it was trained on, the newest held out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import atomic_file, read_json, write_json
from pipelines.common.errors import PipelineError

FILE = "rows.json"  # in the run folder of a refresh
TEST_SHARE, VALID_SHARE = 0.2, 0.1  # of the rows, and of those that are left; at least


@dataclass(frozen=True)
class NewRows:
    """Names of the files of rows by split, the oldest first.

    Attributes:
        train: Files to train on.
        valid: Newer ones, which choose the epoch.
        test: The newest ones, on which the refreshed model is compared with the serving one. They
            are among the rows to train on of the next refresh.
    """

    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]

    @classmethod
    def choose(cls, folder: Path, trained: Collection[str]) -> NewRows | None:
        """Divides the files of a folder by their names, which are in the order of time.

        Args:
            folder: Parquet files, as `join` writes them.
            trained: Names of files that are left out.

        Returns:
            The files; None if there are fewer than one for each split.

        Raises:
            PipelineError: There is no such folder, or a file is not readable.
        """
        if not folder.is_dir():
            raise PipelineError(
                f"--data: expected the folder of rows that `recsys-attn join` writes. Received: "
                f"{folder}, which is no folder."
            )
        paths = [path for path in sorted(folder.glob("*.parquet")) if path.name not in trained]
        rows = dict(_counted(paths))
        names = list(rows)  # without empty files
        if len(names) < 3:
            return None
        test = _newest([rows[name] for name in names], TEST_SHARE, len(names) - 2)
        rest = names[:-test]
        valid = _newest([rows[name] for name in rest], VALID_SHARE, len(rest) - 1)
        return cls(tuple(rest[:-valid]), tuple(rest[-valid:]), tuple(names[-test:]))

    def save(self, run: Path) -> None:
        """Writes the names into the run folder of the refresh."""
        with atomic_file(run / FILE) as file:
            write_json(file, asdict(self))

    @classmethod
    def load(cls, run: Path) -> NewRows | None:
        """The names that `save` wrote; None if there are none."""
        if not (run / FILE).exists():
            return None
        return cls(**{split: tuple(names) for split, names in read_json(run / FILE).items()})

    def paths(self, folder: Path) -> dict[str, list[str]]:
        """The paths of the files by split.

        Args:
            folder: Their folder.
        """
        return {split: [str(folder / name) for name in of] for split, of in asdict(self).items()}


def trained_files(runs: Iterable[Path]) -> set[str]:
    """Names of the files on which the runs of some refreshes were trained."""
    return {name for run in runs if (rows := NewRows.load(run)) for name in rows.train}


def _counted(paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """Name and number of rows of each file that has rows."""
    for path in paths:
        try:
            count = pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"{path} cannot be read: {error}. Remove it.") from None
        if count:
            yield path.name, count


def _newest(rows: list[int], share: float, most: int) -> int:
    """How many of the newest files have a share of the rows; at least 1, at most `most`."""
    totals = accumulate(reversed(rows))
    enough = (n for n, total in enumerate(totals, 1) if total >= share * sum(rows))
    return min(next(enough), most)
