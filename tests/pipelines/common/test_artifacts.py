"""Atomic folders, damaged files and the lock of a run folder."""

import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.common import artifacts
from pipelines.common.artifacts import atomic_directory, locked, read_json, recover
from pipelines.common.errors import PipelineError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_folder_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "data"
    for content in ("first", "second"):
        with atomic_directory(target) as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / content).write_text(content)
            assert folder.parent == target.parent
            assert not (target / "deep" / content).exists()
        assert _files(target.parent) == {f"data/deep/{content}": content}


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), KeyboardInterrupt(), SystemExit(3), PipelineError("bad")]
)
@pytest.mark.parametrize("before", [{}, {"data/a": "old"}], ids=["new", "old"])
def test_failed_block_leaves_nothing(
    tmp_path: Path, error: BaseException, before: dict[str, str]
) -> None:
    for name, content in before.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    with pytest.raises(type(error)):
        _write_half(tmp_path / "data", error)
    assert _files(tmp_path) == before


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError("[Errno 28] Error writing bytes to file. Detail: No space left on device"),  # Arrow
        RuntimeError("/r/.model.new/saved_model.pb; No space left on device"),  # TensorFlow
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    ],
    ids=["system", "arrow", "tensorflow", "quota"],
)
def test_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, error: Exception) -> None:
    message = f"No space left on the disk while writing {tmp_path / 'data'}. Earlier results are"
    with pytest.raises(PipelineError, match=message):
        _write_half(tmp_path / "data", error)
    assert _files(tmp_path) == {}


@pytest.mark.parametrize("stop_at", range(4))
def test_kill_while_replacing_leaves_old_or_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    """A kill before the first, second, ... change of the file system, then the next start."""
    target = tmp_path / "data"
    target.mkdir()
    (target / "a").write_text("old")
    new = tmp_path / ".data.new"
    new.mkdir()
    (new / "a").write_text("new")
    done = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if done == stop_at:
                raise KeyboardInterrupt
            done += 1
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(artifacts.os, "fsync", counted(os.fsync))
        patched.setattr(Path, "rename", counted(Path.rename))
        if stop_at < 3:
            with pytest.raises(KeyboardInterrupt):
                artifacts._replace(new, target)
        else:
            artifacts._replace(new, target)
    recover(target)
    assert _files(tmp_path) == {"data/a": "new" if stop_at == 3 else "old"}


def test_lock_is_exclusive(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    with locked(folder):
        message = f"Another recsys-attn is working in {folder}"
        with pytest.raises(PipelineError, match=message), locked(folder):
            pass
        with locked(tmp_path / "runs" / "b"):
            pass
    with locked(folder):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from pipelines.common.artifacts import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(PipelineError, match="Another recsys-attn"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with locked(tmp_path):
        pass


def test_a_run_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PipelineError, match=r"The run folder .*/file/run cannot be written: Not a"),
        locked(tmp_path / "file" / "run"),
    ):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "is damaged"),
        (b'{"a": 1', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[1]", "is damaged: it holds no JSON object"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PipelineError, match=f"{path} {message}"):
        read_json(path)


def test_fingerprint_ignores_key_order() -> None:
    first = artifacts.fingerprint({"a": 1, "b": [2, 3]})
    assert first == artifacts.fingerprint({"b": [2, 3], "a": 1})
    assert first != artifacts.fingerprint({"a": 1, "b": [3, 2]})
    assert first != artifacts.fingerprint({"a": "1", "b": [2, 3]})


def test_hashes_of_files_see_contents_and_order(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(path.name)
    first = artifacts.hash_files(paths)
    assert artifacts.hash_files(paths[::-1]) != first
    os.utime(paths[0], (time.time(), 0))
    assert artifacts.hash_files(paths) == first
    paths[1].write_text("c")
    assert artifacts.hash_files(paths) != first


def _write_half(target: Path, error: BaseException) -> None:
    with atomic_directory(target) as folder:
        (folder / "b").write_text("half")
        raise error


def _files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
        if path.is_file() or path.name.startswith(".")
    }


def test_the_commit_is_that_of_the_clone_of_the_code(tmp_path: Path) -> None:
    code = Path(shutil.copy(artifacts.__file__, tmp_path))
    spec = importlib.util.spec_from_file_location("copied", code)
    assert spec is not None
    assert spec.loader is not None
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def found() -> str | None:
        copied.commit.cache_clear()
        result: str | None = copied.commit()
        return result

    assert found() is None
    git("init", "--quiet")
    assert found() is None  # the environment of another project
    git("add", code.name)
    git("commit", "--quiet", "--message", "one")
    git("tag", "v1")
    assert found() == git("rev-parse", "--short=7", "HEAD")
    with code.open("a") as file:
        file.write("# changed")
    assert found() == git("rev-parse", "--short=7", "HEAD") + "-dirty"
