"""The printed table of a board fits the console."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.boards.board import Board, LoadedBoard
from pipelines.boards.page import print_board
from pipelines.boards.result import REPRODUCED, Line

LINES = [
    Line(
        model=name,
        task="click",
        published=0.9848,
        source="",
        value=0.9847,
        spread=0.0003,
        seeds={7: 0.9847},
        interval=[0.9831, 0.9862],
        difference=[0.0011, -0.0002, 0.0024],
        verdict=REPRODUCED,
        seconds=300.0,
        weights=1_234_567,
        commits=["6b47ae0", "3fe2ee7-dirty"],
    )
    for name in ("DeepFM", "Wide & Deep")
]


def _printed(width: int) -> str:
    board = Board(title="Clicks", experiment="", models=[{"name": "DeepFM"}])
    text = io.StringIO()
    loaded = LoadedBoard("clicks", board, Path("clicks.toml"))
    print_board(Console(file=text, width=width), loaded, LINES)
    return text.getvalue()


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_each_model_keeps_a_line_of_whole_numbers(width: int) -> None:
    lines = _printed(width).rstrip().splitlines()
    assert len(lines) == 2 + len(LINES)
    assert max(map(len, lines)) <= width
    for line in lines[2:]:
        assert "0.9848 0.9847" in " ".join(line.split())
        assert "+0.0011 (-0.0002 to +0.0024) reproduced" in line


def test_a_wide_console_has_every_column() -> None:
    assert "1,234,567" in _printed(200)
    assert "0.9831 to 0.9862" in _printed(200)
    assert "6b47ae0, 3fe2ee7-dirty" in _printed(200)
