"""Commands that take both kinds of experiment choose by the file, without TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.calls import opened as opened_module
from pipelines.common.own_parts import NO_PARTS
from pipelines.engines import LOCAL
from tests.integration.commands import error_of, invoke

RANKING = 'name = "x"\n[data]\nsource = "parquet"\n[[tasks]]\nname = "click"\n'
FILES = {
    "ranking": RANKING,
    "events": 'name = "x"\n[data]\nsource = "events"\n',
    "user": 'name = "x"\n[data]\nsource = "movielens-1m"\nuser = "user_id"\n',
    "objectives": 'name = "x"\n[data]\nsource = "movielens-1m"\n[[objectives]]\nname = "bpr"\n',
}
TAKEN = {
    "run": ("everything",),
    "ingest": ("ingest", LOCAL),
    "fit": ("fit", LOCAL),
    "train": ("train",),
    "evaluate": ("evaluate", LOCAL),
    "export": ("export",),
}


class _Recorder:
    """Steps that remember which were taken."""

    experiment = SimpleNamespace(own_parts=NO_PARTS)

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.taken.append((name, *arguments))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, _Recorder]:
    """The steps that a command opens, by the kind of the experiment."""
    recorders: dict[str, _Recorder] = {}

    def opener(kind: str) -> Any:
        @contextlib.contextmanager
        def open_steps(*arguments: Any) -> Iterator[_Recorder]:
            recorders[kind] = _Recorder()
            yield recorders[kind]

        return open_steps

    monkeypatch.setattr(opened_module, "opened_ranking", opener("ranking"))
    monkeypatch.setattr(opened_module, "opened_sequences", opener("sequences"))
    monkeypatch.setattr("pipelines.cli.pretrain.opened_sequences", opener("pretrain"))
    return recorders


@pytest.mark.parametrize("command", TAKEN)
@pytest.mark.parametrize("file", FILES)
def test_a_command_chooses_the_steps_by_the_file(
    opened: dict[str, _Recorder], tmp_path: Path, file: str, command: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(FILES[file])
    assert invoke(command, path).exit_code == 0
    kind = "ranking" if file == "ranking" else "sequences"
    assert {name: steps.taken for name, steps in opened.items()} == {kind: [TAKEN[command]]}


def test_pretrain_takes_all_or_some_steps(opened: dict[str, _Recorder], tmp_path: Path) -> None:
    assert invoke("pretrain", tmp_path / "x.toml").exit_code == 0
    assert opened["pretrain"].taken == [("everything",)]
    invoke("pretrain", tmp_path / "x.toml", "--step", "fit", "--step", "ingest")
    assert opened["pretrain"].taken == [("take", ("fit", "ingest"))]


def test_an_override_may_change_the_kind(opened: dict[str, _Recorder], tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(RANKING)
    assert invoke("run", path, "--set", "data.source=events").exit_code == 0
    assert list(opened) == ["sequences"]


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["score", "--input", "x", "--output", "y"], ["skew", "--log", "x"]],
    ids=lambda arguments: arguments[0],
)
def test_commands_of_ranking_models_refuse_a_sequence_model(
    tmp_path: Path, arguments: list[str]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(FILES["events"])
    command, *options = arguments
    message = error_of(invoke(command, path, *options))
    assert "expected the experiment of a ranking model" in message
    assert "which run, ingest, fit, train, evaluate and export take." in message
