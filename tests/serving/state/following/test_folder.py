"""Each event of a folder counts once, in the order of the files' names, or is a dead letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from serving.state.errors import DataError
from serving.state.online.group_batch import Places
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from tests.serving.state.following.conftest import PAST, Following, write_files

Make = Callable[..., Following]
USERS = ["0", "1", "2", "3", "4"]


def lines(rows: pa.Table) -> list[str]:
    return [json.dumps(row) + "\n" for row in rows.to_pylist()]


def letters(following: Following) -> list[dict[str, Any]]:
    if not following.letters.exists():
        return []
    return [json.loads(line) for line in following.letters.read_text().splitlines()]


def values(following: Following, moment: int = 99) -> str:
    """All that the store answers, as text, in which NaN equals NaN."""
    reader = StateReader(following.store, following.saved.definition)
    items = {"item": list(range(7))}
    return repr([reader.values({"user": user}, items, moment) for user in USERS])


def in_one_batch(following: Following, rows: pa.Table) -> str:
    """The values when all rows after the past are added at once."""
    of = following.saved.definition
    batch = rows.slice(PAST).select(of.columns.names)
    StateWriter(following.store, of).add(batch, Places.of(7, 0, batch.num_rows))
    return values(following)


def test_files_equal_one_batch(following: Make, tmp_path: Path, rows: pa.Table) -> None:
    write_files(tmp_path / "log", rows)
    followed = following()
    assert followed.catch_up().followed.events == rows.num_rows - PAST
    assert followed.catch_up().followed.events == 0
    assert values(followed) == in_one_batch(following("other"), rows)
    assert (followed.reports, letters(followed)) == ([], [])


def test_growing_lines_equal_one_batch(following: Make, tmp_path: Path, rows: pa.Table) -> None:
    followed = following()
    texts = lines(rows.slice(PAST))
    with (tmp_path / "log/b.jsonl").open("w") as grown, (tmp_path / "log/a.jsonl").open("w") as one:
        running = followed.follower()
        for number, text in enumerate(texts):
            file = one if number in (20, 21, 30) else grown
            file.write(text[:9])
            file.flush()
            running.catch_up()  # half a line waits
            file.write(text[9:].rstrip() if number == 25 else text[9:])
            file.flush()
            if number == 25:  # a whole object needs no end of its line
                running.catch_up()
                file.write("\n")
                file.flush()
            if number % 7 == 0:
                running = followed.follower()
            running.catch_up()
    assert values(followed) == in_one_batch(following("other"), rows)
    assert (followed.reports, letters(followed)) == ([], [])


def test_files_of_ingest_are_skipped(following: Make, tmp_path: Path, rows: pa.Table) -> None:
    followed = following()
    (source,) = followed.saved.files
    data = Path(source).read_bytes()
    (tmp_path / "log" / Path(source).name).write_bytes(data)
    assert followed.catch_up().followed.events == 0
    pq.write_table(rows.slice(PAST, 5), tmp_path / "log" / Path(source).name)  # another size
    assert followed.catch_up().followed.events == 5


def test_rows_that_do_not_count_are_letters(
    following: Make, tmp_path: Path, rows: pa.Table
) -> None:
    newest = pc.max(rows["time"]).as_py()
    good = lines(rows.slice(PAST))
    late = json.dumps({**json.loads(good[0]), "time": newest - 20}) + "\n"
    no_time = json.dumps({**json.loads(good[0]), "time": "noon"}) + "\n"
    label = json.dumps({**json.loads(good[0]), "click": 7}) + "\n"
    no_user = json.dumps({k: v for k, v in json.loads(good[0]).items() if k != "user"}) + "\n"
    bad = ["no json\n", no_time, label, no_user]
    mixed = [*bad[:2], *good[:9], bad[2], *good[9:], bad[3], late]
    (tmp_path / "log/a.jsonl").write_text("".join(mixed))
    followed = following()
    followed.catch_up()
    assert values(followed) == in_one_batch(following("other"), rows)
    kinds = [letter["kind"] for letter in letters(followed)]
    assert kinds == ["invalid"] * 4 + ["late"]
    assert [letter["event"] for letter in letters(followed)][1:] == [
        json.loads(text) for text in [*bad[1:], late]
    ]
    places = [letter["at"] for letter in letters(followed)]
    assert ["".join(mixed).encode()[at:].split(b"\n")[0] for at in places] == [
        text.strip().encode() for text in [*bad, late]
    ]
    followed.catch_up()
    assert len(letters(followed)) == 5


def test_file_without_a_column_is_all_letters(
    following: Make, tmp_path: Path, rows: pa.Table
) -> None:
    pq.write_table(rows.slice(PAST, 3).drop_columns("price"), tmp_path / "log/a.parquet")
    pq.write_table(rows.slice(PAST), tmp_path / "log/b.parquet")
    followed = following()
    followed.catch_up()
    assert [letter["at"] for letter in letters(followed)] == [0, 1, 2]
    assert "'price'" in letters(followed)[0]["reason"]
    assert values(followed) == in_one_batch(following("other"), rows)


def test_changed_and_broken_files_are_reported(
    following: Make, tmp_path: Path, rows: pa.Table
) -> None:
    log = tmp_path / "log"
    (log / "half.parquet").write_bytes(b"PAR1")
    (log / ".hidden.parquet").write_bytes(b"PAR1")
    pq.write_table(rows.slice(PAST, 5), log / "a.parquet")
    followed = following()
    follower = followed.follower()
    follower.catch_up()
    assert follower.followed.events == 5
    pq.write_table(rows.slice(PAST, 29), log / "a.parquet")
    pq.write_table(rows.slice(PAST + 5, 8), log / "half.parquet")
    follower.catch_up()
    follower.catch_up()
    assert follower.followed.events == 13
    unread, changed = followed.reports
    assert unread.startswith("half.parquet cannot be read")
    assert changed.startswith("a.parquet has changed")


@pytest.mark.parametrize("following", ["lmdb", "redis"], indirect=True)
def test_two_followers_count_once(following: Make, tmp_path: Path, rows: pa.Table) -> None:
    followed = following()
    one, two = followed.follower(), followed.follower()
    texts = lines(rows.slice(PAST))
    for number in range(0, len(texts), 5):
        with (tmp_path / f"log/{number % 3}.jsonl").open("a") as file:
            file.write("".join(texts[number : number + 5]))
        (one if number % 2 else two).catch_up()
    one.catch_up()
    two.catch_up()
    assert values(followed) == in_one_batch(following("other"), rows)


def test_load_under_a_follower_is_an_error(following: Make, tmp_path: Path, rows: pa.Table) -> None:
    followed = following()
    running = followed.follower()
    pq.write_table(rows.slice(PAST, 7), tmp_path / "log/1.parquet")
    running.catch_up()
    load_state(followed.saved, followed.store, force=True)
    pq.write_table(rows.slice(PAST + 7), tmp_path / "log/2.parquet")
    with pytest.raises(DataError, match="loaded anew"):
        running.catch_up()
    followed.catch_up()
    assert values(followed) == in_one_batch(following("other"), rows)
