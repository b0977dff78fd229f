"""Atomic folders and files, their manifests, and the lock of a run folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.common.errors import PipelineError

MANIFEST = "manifest.json"
EXPERIMENT = "experiment.json"  # in a run folder, as are:
DATA = "data"
FEATURES = "features"
MODEL = "model"
EVALUATION = "evaluation"
CHECKPOINTS = "checkpoints"
METRICS = "metrics.json"  # in an evaluation folder, with
PREDICTIONS = "predictions.parquet"
_DESCRIBED = ("--always", "--dirty", "--abbrev=7", "--exclude=*")  # the commit alone, no tag
_PACKAGES = ("recsys-attn", "tensorflow", "keras", "pyarrow", "numpy")


def fingerprint(value: Any) -> str:
    """Hash of plain data."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_files(paths: list[Path]) -> str:
    """Hash of the contents of files, in the order of `paths`."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def read_json(path: Path, advice: str = "Run its step again.") -> dict[str, Any]:
    """Reads a JSON object; `advice` ends the error for a damaged file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path} does not exist.") from None
    except ValueError as error:
        raise PipelineError(f"{path} is damaged: {error}. {advice}") from None
    if not isinstance(value, dict):
        raise PipelineError(f"{path} is damaged: it holds no JSON object. {advice}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Readable JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2, default=str) + "\n", encoding="utf-8")


def without_nan(value: Any) -> Any:
    """Plain data for a JSON file: NaN and infinity, which JSON does not have, become null."""
    return json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)


def versions() -> dict[str, str]:
    """Versions of the packages that influence a result."""
    numbers = {}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            numbers[package] = importlib.metadata.version(package)
    return numbers


@functools.cache
def commit() -> str | None:
    """The Git commit of the running code, with `-dirty` if files have uncommitted changes.

    None if the package is installed and not run from a clone.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        # An environment inside the clone of another project has no commit of its own.
        for command in (["ls-files", "--error-unmatch", __file__], ["describe", *_DESCRIBED]):
            process = subprocess.run([*git, *command], capture_output=True, text=True, check=True)
        return process.stdout.strip()
    return None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a run folder for one writer; a killed process loses its lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a")
    except OSError as error:
        raise PipelineError(
            f"The run folder {folder} cannot be written: {error.strerror}."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(
                f"Another recsys-attn is working in {folder}. Wait for it, or choose another "
                "folder."
            ) from None
        yield


@contextlib.contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces `target` if the block succeeds.

    If the block fails, `target` stays unchanged. A full disk becomes a `PipelineError`.
    """
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        temporary = _beside(target, "new")
        temporary.mkdir()
        try:
            yield temporary
            _replace(temporary, target)
        finally:
            recover(target)


@contextlib.contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yields a temporary file that replaces `target` if the block succeeds."""
    temporary = _beside(target, "new")
    try:
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(target)
    except OSError as error:
        raise PipelineError(f"{target} cannot be written: {error}.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turns a full disk while `target` is written into a `PipelineError`.

    Detected by message, because TensorFlow and Arrow raise their own exception types.
    """
    try:
        yield
    except Exception as error:
        if not any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
            raise
        raise PipelineError(
            f"No space left on the disk while writing {target}. Earlier results are unchanged; "
            "free some space and run the same command again, or choose another folder."
        ) from None


def recover(target: Path) -> None:
    """Deletes temporary files of a killed process next to `target`, and restores its backup."""
    aside = _beside(target, "old")
    if aside.exists() and not target.exists():
        aside.rename(target)
    shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(_beside(target, "new"), ignore_errors=True)


def _replace(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            _sync(path)
    if target.exists():
        target.rename(_beside(target, "old"))
    source.rename(target)


def _beside(target: Path, role: str) -> Path:
    return target.parent / f".{target.name}.{role}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
