"""MovieLens-1M from the zip and from its files: users, films, times and histories."""

import zipfile

import pytest

from pipelines.common.errors import PipelineError
from tests.pipelines.ingest.files import read_all, run

FILES = {
    "ratings.dat": "\n".join(
        f"{user}::{item}::{stars}::{978300000 + 3600 * when}"
        for when, (user, item, stars) in enumerate(
            [(1, 10, 5), (2, 10, 4), (1, 20, 3), (2, 30, 1), (1, 30, 4), (1, 40, 2), (2, 20, 4)] * 3
        )
    ),
    "users.dat": "1::F::1::10::48067\n2::M::56::16::02460-1234\n",
    "movies.dat": "10::Toy Story (1995)::Animation|Children's|Comedy\n"
    '20::Fall, The "big" (1997)::Drama\n30::Café (Bar) (2000)::Drama|War\n40::Nameless::Drama\n',
}
HISTORY = {"of": "item_id", "by": "user_id", "time": "timestamp", "max_length": 2}
OPTIONS = {
    "source": "movielens-1m",
    "split": {"by": "time", "valid": 0.2, "test": 0.2},
    "histories": [
        {"name": "rated_items", **HISTORY},
        {"name": "rated_values", **HISTORY, "of": "rating"},
        {"name": "liked_items", **HISTORY, "where": "like"},
    ],
}


@pytest.fixture(params=["zip", "folder of the zip", "folder of the files", "unpacked zip"])
def path(request, tmp_path):
    if "zip" in request.param and request.param != "unpacked zip":
        with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
            for name, text in FILES.items():
                archive.writestr(f"ml-1m/{name}", text.encode("latin-1"))
        return tmp_path / "ml-1m.zip" if request.param == "zip" else tmp_path
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_bytes(text.encode("latin-1"))
    return folder if request.param == "folder of the files" else tmp_path


def test_one_row_per_rating(path, tmp_path):
    summary = run(tmp_path / "out", path=str(path), **OPTIONS)
    assert sum(summary["rows"].values()) == 21
    assert summary["request"] is None
    rows = read_all(tmp_path / "out").to_pylist()
    rating = {"user_id": 1, "item_id": 10, "rating": 5, "timestamp": 978300000}
    user = {"gender": "F", "age": 1, "occupation": 10, "zip": "48067"}
    genres = ["Animation", "Children's", "Comedy"]
    film = {"title": "Toy Story (1995)", "genres": genres, "year": 1995}
    derived = {"hour": 22, "weekday": 6, "like": 1}
    histories = {"rated_items": [], "rated_values": [], "liked_items": []}
    assert rows[0] == {**rating, **user, **film, **derived, **histories}
    assert rows[6]["zip"] == "02460-1234"
    assert rows[6]["title"] == 'Fall, The "big" (1997)'
    assert (rows[3]["title"], rows[3]["year"]) == ("Café (Bar) (2000)", 2000)
    assert (rows[5]["year"], rows[5]["like"]) == (None, 0)
    assert (rows[5]["rated_items"], rows[5]["rated_values"]) == ([20, 30], [3, 4])
    assert rows[5]["liked_items"] == [10, 30]


def test_files_that_are_not_there_or_not_a_zip(tmp_path):
    with pytest.raises(PipelineError, match=r"expected ml-1m.zip or users.dat, found neither"):
        run(tmp_path / "out", path=str(tmp_path), **OPTIONS)
    (tmp_path / "ml-1m.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(PipelineError, match=r"is not the official ml-1m\.zip"):
        run(tmp_path / "out", path=str(tmp_path), **OPTIONS)
