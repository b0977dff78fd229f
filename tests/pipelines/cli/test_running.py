"""Errors that no step foresaw: one sentence, and the traceback in a file."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.cli.running import reported
from pipelines.common.errors import GateError


def _raise_in_step(error):
    try:
        raise error
    except Exception as raised:
        raised.add_note("step fit")
        raise


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("Casting from timestamp[ns]\nwould lose data"),
        pa.ArrowKeyError("no column x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        OSError("connection reset"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unforeseen_error_is_one_sentence(error, capsys):
    with pytest.raises(SystemExit, match="1"), reported():
        _raise_in_step(error)
    found = capsys.readouterr().err
    assert found.startswith(f"Error: step fit: {type(error).__name__}: ")
    assert found.count("\n") == 1
    log = Path(re.search(r"the traceback is in (\S+\.log)\.", found)[1])
    assert "_raise_in_step" in log.read_text()
    log.unlink()


def test_errors_of_users_and_of_the_code(capsys):
    with pytest.raises(SystemExit, match="1"), reported():
        _raise_in_step(FileNotFoundError(2, "No such file", "rows.parquet"))
    assert capsys.readouterr().err == ("Error: step fit: [Errno 2] No such file: 'rows.parquet'\n")
    with pytest.raises(SystemExit, match="4"), reported():
        raise GateError("AUC is too low.")
    assert capsys.readouterr().err == "Error: AUC is too low.\n"
    with pytest.raises(ZeroDivisionError), reported():  # is no fault of the data
        raise ZeroDivisionError
