"""A board's table: on the console, as Markdown, HTML and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.boards.board import LoadedBoard
from pipelines.boards.result import BETTER, REPRODUCED, WORSE, Line
from pipelines.common.artifacts import atomic_file, write_json
from pipelines.report.html import environment
from pipelines.report.numbers import ABSENT, count, decimal

_LEFT_OUT_FIRST = ("commit", "weights", "minutes", "seeds", "s.d.", "95 % interval")
_VERDICT_WIDTH = 30
_STYLES = {REPRODUCED: "green", BETTER: "green", WORSE: "red"}


def columns(lines: Sequence[Line]) -> dict[str, list[str]]:
    """The cells by the heading of their column; columns that say nothing are left out."""
    several = len({line.task for line in lines}) > 1
    by_head = {
        "model": [line.model for line in lines],
        "task": [line.task for line in lines] if several else [],
        "published": [decimal(line.published) for line in lines],
        "mean": [decimal(line.value) for line in lines],
        "s.d.": [decimal(line.spread) for line in lines],
        "seeds": [str(len(line.seeds)) for line in lines],
        "95 % interval": [_ends(line.interval) for line in lines],
        "ahead of the reference": [_ahead(line.difference) for line in lines],
        "verdict": [line.verdict for line in lines],
        "minutes": [f"{line.seconds / 60:.1f}" for line in lines],
        "weights": [count(line.weights) for line in lines],
        "commit": [", ".join(line.commits) for line in lines],
    }
    return {name: cells for name, cells in by_head.items() if set(cells) - {ABSENT, ""}}


def print_board(console: Console, loaded: LoadedBoard, lines: Sequence[Line]) -> None:
    """Prints the table, on a narrow console without the columns of least use."""
    cells = columns(lines)
    for name in _LEFT_OUT_FIRST:
        if sum(map(_width, cells, cells.values())) > console.width:
            cells.pop(name, None)
    title = f"{loaded.board.title}: {_measured(loaded)}"
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in cells:
        is_text = name in ("model", "task", "verdict")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text)
    for place, line in enumerate(lines):
        style = _STYLES.get(line.verdict, "")
        texts = {name: escape(column[place]) for name, column in cells.items()}
        if style:
            texts["verdict"] = f"[{style}]{texts['verdict']}[/]"
        table.add_row(*texts.values())
    console.print(table)


def _measured(loaded: LoadedBoard) -> str:
    """The metric, and the model that the others are compared with."""
    board = loaded.board
    references = dict.fromkeys(filter(None, map(board.reference_of, board.models)))
    return "; reference: ".join(filter(None, [board.metric, ", ".join(references)]))


def _width(name: str, cells: Sequence[str]) -> int:
    """The width of a column; longer verdicts are wrapped."""
    return min(max(map(len, (name, *cells))), _VERDICT_WIDTH) + 1


def write_board(
    folder: Path,
    loaded: LoadedBoard,
    lines: Sequence[Line],
    about: Mapping[str, Any],
    name: str = "board",
) -> list[Path]:
    """Writes `board.json`, `board.md` and `board.html`.

    Args:
        folder: The folder.
        loaded: The board.
        lines: Its table.
        about: Command, versions and hardware.
        name: Of the files.

    Returns:
        The files.
    """
    cells = columns(lines)
    board = loaded.board
    rows = list(zip(*cells.values(), strict=True))
    text = [f"# {board.title}", "", board.note, "", f"{_measured(loaded)}.", ""]
    text += [f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}"]
    text += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    sources = {line.model: line.source for line in lines if line.source}
    text += ["", *(f"- {model}: {source}" for model, source in sources.items()), ""]
    text += [f"{name}: {value}  " for name, value in about.items()]
    page = (
        environment(Path(__file__).parent)
        .get_template("board.html")
        .render(
            board=board,
            measured=_measured(loaded),
            columns=list(cells),
            rows=rows,
            sources=sources,
            about=about,
        )
    )
    files = [folder / f"{name}.{ending}" for ending in ("json", "md", "html")]
    values = {
        "title": board.title,
        "metric": board.metric,
        "about": dict(about),
        "lines": [line._asdict() for line in lines],
    }
    with atomic_file(files[0]) as part:
        write_json(part, values)
    for file, content in ((files[1], "\n".join(text).rstrip() + "\n"), (files[2], page)):
        with atomic_file(file) as part:
            part.write_text(content, "utf-8")
    return files


def _ends(interval: list[float] | None) -> str:
    return ABSENT if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}"


def _ahead(difference: list[float] | None) -> str:
    if difference is None:
        return ABSENT
    return f"{difference[0]:+.4f} ({difference[1]:+.4f} to {difference[2]:+.4f})"
