"""The `[data]` table of a sequence model refuses what does not fit together."""

import pytest
from pydantic import ValidationError

from pipelines.ingest.events.event_options import EventOptions
from tests.pipelines.ingest.events.logs import NAMES, random_log, write

GIVEN = {"path": "events.parquet", **NAMES}
CUTS = {"valid_from": 5, "test_from": 7}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": None}, "`path` must name the Parquet file or folder of events"),
        ({"path": ("a", "b"), "source": "movielens-1m"}, "`path` must be one file or folder"),
        ({"source": "csv"}, "'events' or 'movielens-1m'"),
        ({"session": "s", "session_gap": 1800.0}, "remove one. Received: session='s', session_gap"),
        ({"session_gap": 0.0}, "greater than 0"),
        ({"min_user_events": 1}, "greater than or equal to 2"),
        ({"item": "who"}, "must name different columns. Received: .*'who', 'who', 'at'"),
        ({"columns": ("at",)}, "must name different columns"),
        ({"columns": ("age",)}, "ingest makes columns 'age'.* Received: .'age'"),
        ({"item": "count"}, "rename those of the events. Received: .'count'"),
        ({"columns": ("user", "kind")}, "inputs 'candidate', .* of its own.* Received: .'user'."),
        ({"item": "state"}, "rename such columns of the events. Received: .'state'"),
        ({"gap": 3}, "Extra inputs are not permitted"),
        ({"split": {"by": "user"}}, "'last' or 'time'"),
        ({"split": {"by": "time", "valid_from": 5}}, "needs `valid_from` and `test_from`.*None"),
        ({"split": CUTS}, "belong to by = \"time\". Received: by='last'"),
        ({"split": {"by": "time", **CUTS, "valid_from": "2025-11-01"}}, "must be of one type"),
    ],
)
def test_wrong_options_are_errors(options, message):
    with pytest.raises(ValidationError, match=message):
        EventOptions(**{**GIVEN, **options})


def test_a_column_of_sessions_may_be_named_as_the_made_one():
    options = EventOptions(**GIVEN, session="session", columns=("count",))
    assert options.named == ("who", "film", "at", "session", "count")
    assert options.has_sessions
    assert EventOptions(**GIVEN, session_gap=1800).has_sessions
    assert not EventOptions(**GIVEN).has_sessions


def test_stamps_change_with_a_file(tmp_path):
    write(tmp_path / "a" / "0.parquet", random_log(7))
    options = EventOptions(**{**GIVEN, "path": str(tmp_path / "a")})
    first = options.stamps()
    assert list(first) == [str(tmp_path / "a" / "0.parquet")]
    write(tmp_path / "a" / "0.parquet", random_log(11))
    assert options.stamps() != first
