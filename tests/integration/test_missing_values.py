"""The table of missing values in `docs/serving/clients.md`, against an export's scores."""

from __future__ import annotations

import json
import math
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from recsys_attn.schema import Feature, Sequence, is_listed
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from serving.state.columns.missing import MISSING
from tests.serving.commands import free_port
from tests.support import shop
from tests.support.exports import write_linear_export
from tests.support.once import once

PAGE = Path(__file__).parents[2] / "docs/serving/clients.md"
NAMED = {"None": None, "null": None, "NaN": math.nan, "Infinity": math.inf}
PRESENT = {"string": ["a", "b"], "int64": [7, 13], "float32": [0.001, -11.0]}  # that the shop knows
LISTED = [f for f in shop.SCHEMA.features if is_listed(f)]


class _Row(NamedTuple):
    """A row of the table: a kind of feature and its missing values."""

    feature: str
    dtype: str
    grpc: list[Any]
    client: list[Any]
    json: list[Any]


def _table() -> list[_Row]:
    section = PAGE.read_text("utf-8").split("## Missing values\n")[1]
    lines = re.findall(r"^\|(.+)\|$", section, re.M)
    rows = [[cell.strip() for cell in line.split("|")] for line in lines[2:9]]
    return [_Row(name, dtype, *map(_values, cells[:3])) for name, dtype, *cells in rows]


def _values(cell: str) -> list[Any]:
    words = re.findall("`(.+?)`", cell)
    return [NAMED[word] if word in NAMED else json.loads(word) for word in words]


TABLE = _table()


class _Server(NamedTuple):
    client: Client
    url: str

    def by_grpc(self, row: dict[str, Any]) -> float:
        inputs = {f.name: _tensor(f, row[f.name]) for f in shop.SCHEMA.features}
        return float(self.client.predict(inputs)["click"][0])

    def by_client(self, row: dict[str, Any]) -> float:
        return float(self.client.predict_rows([row])["click"][0])

    def by_json(self, row: dict[str, Any]) -> float:
        columns = {name: [value] for name, value in row.items()}
        score = float(self._post("predict", {"instances": [row]})["predictions"][0]["click"])
        assert self._post("predict", {"inputs": columns})["outputs"]["click"] == [score]
        return score

    def by_rank(self, row: dict[str, Any], left_out: list[str]) -> float:
        """The score where these features are null."""
        sides: dict[str, dict[str, Any]] = {"context": {}, "candidate": {}}
        for feature in shop.SCHEMA.features:
            value = None if feature.name in left_out else row[feature.name]
            sides[feature.side][feature.name] = value
        body = {"context": sides["context"], "candidates": [sides["candidate"]]}
        return float(self._post("rank", body)["scores"]["click"][0])

    def _post(self, method: str, body: object) -> Any:
        content = json.dumps(body, allow_nan=False).encode()
        with urllib.request.urlopen(f"{self.url}:{method}", content, timeout=60) as answer:
            return json.load(answer)


def _tensor(feature: Feature, value: Any) -> np.ndarray:
    kinds = {"string": object, "int64": "int64", "float32": "float32"}
    found = np.array([value], kinds[feature.dtype])
    return np.vectorize(str.encode, otypes=[object])(found) if found.dtype == object else found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    folder = tmp_path_factory.mktemp("missing") / "shop"
    shutil.copytree(
        once(tmp_path_factory, "linear-export", write_linear_export) / "3", folder / "3"
    )
    (folder / "3" / "manifest.json").write_text("{}")
    port = free_port()
    found, grpc_port = create_server(ServerConfig(str(folder), port=0, rest_api_port=port))
    found.start()
    with Client(f"127.0.0.1:{grpc_port}", model="shop", timeout=60) as client:
        yield _Server(client, f"http://127.0.0.1:{port}/v1/models/shop")
    found.stop()


def _present() -> dict[str, Any]:
    """A row with a value everywhere."""
    return {
        f.name: PRESENT[f.dtype] if is_listed(f) else PRESENT[f.dtype][0]
        for f in shop.SCHEMA.features
    }


def _kind(feature: Feature) -> str:
    if isinstance(feature, Sequence):
        return "all of a history"
    if is_listed(feature):
        return "all of a multivalued feature"
    is_quantile = feature.kind == "categorical" and feature.dtype == "float32"
    return f"{feature.kind}, by quantile" if is_quantile else feature.kind


def _dtype(feature: Feature) -> str:
    return "any" if is_listed(feature) else feature.dtype


def test_table_has_every_kind_of_feature() -> None:
    kinds = {(row.feature, row.dtype) for row in TABLE}
    found = {(_kind(f), _dtype(f)) for f in shop.SCHEMA.features}
    assert found | {("a value in a list", "any")} == kinds


@pytest.mark.parametrize("feature", shop.SCHEMA.features, ids=lambda f: f.name)
def test_missing_feature_scores_the_same_every_way(server: _Server, feature: Feature) -> None:
    (row,) = [r for r in TABLE if (r.feature, r.dtype) == (_kind(feature), _dtype(feature))]
    present, names = _present(), _together(feature)
    dtypes = {name: shop.SCHEMA[name].dtype for name in names}
    others = [] if is_listed(feature) else row.grpc[1:]

    def alike(value: Any) -> dict[str, Any]:
        return {**present, **dict.fromkeys(names, value)}

    first = {
        name: [MISSING[dtypes[name]]] * 3 if is_listed(feature) else row.grpc[0] for name in names
    }
    expected = server.by_grpc({**present, **first})
    assert abs(expected - server.by_grpc(present)) > 1e-4, "the value counts"
    left_out = {key: value for key, value in present.items() if key not in names}
    found = [
        *(server.by_grpc(alike(value)) for value in others),
        *(server.by_client(alike(value)) for value in row.client),
        *(server.by_json(alike(value)) for value in row.json),
        server.by_client(left_out),
        server.by_rank(present, names),
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def _together(feature: Feature) -> list[str]:
    """A list, or the aligned lists of its history."""
    if not isinstance(feature, Sequence):
        return [feature.name]
    return [sequence.name for sequence in shop.SCHEMA.histories[feature.history]]


@pytest.mark.parametrize("feature", LISTED, ids=lambda f: f.name)
def test_missing_value_in_a_list_is_dropped(server: _Server, feature: Feature) -> None:
    (row,) = [r for r in TABLE if r.feature == "a value in a list"]
    present, dtypes = _present(), {f.name: f.dtype for f in LISTED}

    def changed(second: Any) -> dict[str, Any]:
        return {name: [present[name][0], second(dtypes[name])] for name in _together(feature)}

    missing = {**present, **changed(lambda dtype: MISSING[dtype])}
    expected = server.by_grpc(missing)
    assert abs(expected - server.by_grpc(present)) > 1e-4, "the value counts"
    shorter = {name: present[name][:1] for name in _together(feature)}
    found = [
        server.by_grpc({**present, **shorter}),
        *(server.by_client({**present, **changed(lambda _, v=value: v)}) for value in row.client),
        *(server.by_json({**present, **changed(lambda _, v=value: v)}) for value in row.json),
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
