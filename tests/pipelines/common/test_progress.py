"""A bar on a terminal, finished lines elsewhere."""

import io

import pytest
from rich.console import Console

from pipelines.common.progress import Progress


@pytest.mark.parametrize("total", [17, None], ids=["known total", "unknown total"])
def test_terminal_shows_a_transient_bar(total: int | None) -> None:
    output = io.StringIO()
    progress = Progress(Console(file=output, force_terminal=True, width=80))
    advance = progress.start("reading", total)
    advance(5)
    advance(12)
    progress.finish("17 rows")
    text = output.getvalue()
    assert "reading" in text
    assert "rows/s" in text
    assert ("17 rows  " in text) == (total is None)
    assert text.rstrip().endswith("17 rows")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor comes back


@pytest.mark.parametrize(
    ("total", "expected"), [(800, "50%"), (None, "400 rows")], ids=["known total", "unknown total"]
)
def test_a_file_gets_a_line_a_minute(
    total: int | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 30.0, 80.0, 90.0, 150.0])
    monkeypatch.setattr("pipelines.common.progress.time.monotonic", lambda: next(times))
    output = io.StringIO()
    advance = Progress(Console(file=output, width=80)).start("reading", total)
    for _ in range(3):
        advance(200 if output.getvalue() == "" else 0)
    assert output.getvalue() == f"  reading  {expected}  5 rows/s\n"
    advance(200)
    assert output.getvalue().endswith("4 rows/s\n")
