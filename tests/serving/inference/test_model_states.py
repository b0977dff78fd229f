"""A push reaches each loaded version of a model that has the pushed features."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from serving.common.errors import InvalidArgument
from serving.encoding.events import PushedRows
from serving.inference.model_states import ModelStates
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.online.reader import StateReader
from serving.state.stores.lmdb_store import LmdbStore
from tests.serving.state.online.test_profiles import ALONE, BOTH

COUNTS = StateDefinition(
    (AggregateOptions(name="seen", kind="count", by="user", time="time"),),
    (),
    pa.schema({"user": pa.string(), "time": pa.int64()}),
)
EVENT = {"user": "ann", "time": 7}
PROFILE = {**dict.fromkeys(ALONE.static[0].columns.names), "user": "ann", "country": "fi"}


@dataclass(eq=False)
class Version:
    """A loaded version: pushes need its name alone."""

    name: str = "ctr"


class Served:
    """Loaded versions of some definitions over one store."""

    def __init__(self, folder: Path, *definitions: StateDefinition) -> None:
        store = LmdbStore(folder)
        self.states = ModelStates(store, store, takes_events=True)
        self.versions: list[Any] = [Version() for _ in definitions]
        for version, of in zip(self.versions, definitions, strict=True):
            self.states.add(version, of)

    def read(self, of: StateDefinition) -> dict[str, Any]:
        reader = StateReader(self.states.store, of)
        return dict(reader.values({"user": "ann"}, {}, 99 if of.features else None).context)


def test_versions_without_what_is_pushed_are_left_out(tmp_path: Path) -> None:
    served = Served(tmp_path, COUNTS, ALONE)
    added = served.states.push("ctr", PushedRows(events=[EVENT], users=[PROFILE]))
    assert len(added.late) == 1
    assert served.read(COUNTS) == {"seen": 1.0}
    assert served.read(ALONE)["country"] == "fi"


def test_users_and_items_reach_the_versions_that_have_them(tmp_path: Path) -> None:
    served = Served(tmp_path, ALONE, BOTH)
    item = {"item": 3, "price": 2.0, "tags": []}
    served.states.push("", PushedRows(users=[PROFILE], items=[item]))
    assert served.read(ALONE)["country"] == "fi"
    values = StateReader(served.states.store, BOTH).values({"user": "ann"}, {"item": [3]})
    assert (values.context["country"], values.candidates["price"].tolist()) == ("fi", [2.0])


@pytest.mark.parametrize("broken", ["events", "users"])
def test_wrong_row_leaves_all_as_it_was(broken: str, tmp_path: Path) -> None:
    served = Served(tmp_path, COUNTS, ALONE)
    rows = {"events": [EVENT], "users": [PROFILE], broken: [{"user": 5}]}
    with pytest.raises(InvalidArgument):
        served.states.push("ctr", PushedRows(**rows))
    assert served.read(COUNTS) == {"seen": 0.0}
    assert served.read(ALONE)["country"] == ""


def test_features_that_no_version_has_are_named(tmp_path: Path) -> None:
    served = Served(tmp_path, COUNTS)
    with pytest.raises(InvalidArgument, match=r"no static features of items.*`data\.items`"):
        served.states.push("ctr", PushedRows(items=[{"item": 3}]))
