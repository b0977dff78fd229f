"""The contenders: one process each, in a Python that has its packages."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

from benchmarks.peers.settings import Settings

ROOT = Path(__file__).parents[2]
OURS = {"tensorflow": "ours", "jax": "ours_on_jax", "parquet": "ours_from_parquet"}
PEERS = {"FuxiCTR": "fuxictr", "DeepCTR-Torch": "deepctr_torch", "torch-rechub": "torch_rechub"}
LOW = "mixed_bfloat16"
LACKING = {  # what each peer cannot express; `torch_loop.py` says why
    "autoint": ("DeepCTR-Torch", "torch-rechub"),
    "dien": ("FuxiCTR",),
    "ple": ("FuxiCTR",),
}


@dataclass(frozen=True)
class Entry:
    """A contender and the options that are its own.

    Attributes:
        name: In the tables.
        module: Of `benchmarks.peers`.
        python: What runs it.
        backend: Of Keras.
        options: Of the settings.
    """

    name: str
    module: str
    python: str = sys.executable
    backend: str = "tensorflow"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> str:
        return self.options.get("precision", "float32")

    @property
    def framework(self) -> str:
        """What computes it, by the name that `peak` has for it."""
        return "torch" if self.module in PEERS.values() else self.backend

    def run(self, settings: Settings) -> dict[str, Any]:
        """Returns its output, or the last lines of its `error`."""
        return run(
            self.module, asdict(replace(settings, **self.options)), self.python, self.backend
        )


def run(module: str, argument: Any, python: str, backend: str = "tensorflow") -> dict[str, Any]:
    """The last line that a module prints, read as JSON."""
    argument = argument if isinstance(argument, str) else json.dumps(argument)
    process = subprocess.run(
        [python, "-m", f"benchmarks.peers.{module}", argument],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        return {"error": "\n".join(lines[-3:])}
    return json.loads(process.stdout.splitlines()[-1])


def ways_of_ours() -> list[str]:
    """Those whose packages are installed here."""
    there = {name: importlib.util.find_spec(name) is not None for name in ("tensorflow", "jax")}
    return [way for way in OURS if there["tensorflow" if way == "parquet" else way]]


def ours(
    ways: Sequence[str],
    precisions: Sequence[str],
    compiled: Sequence[bool],
    micro_batch_size: Sequence[int | None],
) -> list[Entry]:
    """Ours in every combination; from Parquet with the first one of each precision alone."""
    entries = []
    for way, precision in product(ways, precisions):
        options = {"precision": precision}
        name = {"tensorflow": "ours", "jax": "ours on JAX", "parquet": "ours from Parquet"}[way]
        if way == "jax":
            entries.append(Entry(name, OURS[way], backend="jax", options=options))
            continue
        forms = list(product(compiled, micro_batch_size))
        for xla, rows in forms if way == "tensorflow" else forms[:1]:
            parts = [name, *(["XLA"] if xla else []), *([] if rows is None else [_said(rows)])]
            entries.append(
                Entry(
                    ", ".join(parts),
                    OURS[way],
                    options={**options, "compiled": xla, "micro_batch_size": rows},
                )
            )
    return entries


def _said(rows: int) -> str:
    return f"{rows} rows at a time" if rows else "whole batch"


def peers(model: str, python: Path | None, precisions: Sequence[str]) -> list[Entry]:
    """Those that can express the model; FuxiCTR's layers also in bfloat16, by autocast."""
    if python is None:
        return []
    entries = []
    for name, module in PEERS.items():
        if name in LACKING.get(model, ()):
            continue
        low = [LOW] if name == "FuxiCTR" and LOW in precisions else []
        for precision in ["float32", *low]:
            entries.append(Entry(name, module, str(python), options={"precision": precision}))
    return entries


def in_turns(first: Sequence[Entry], second: Sequence[Entry]) -> list[Entry]:
    """One of the first, one of the second, and so on."""
    return [entry for entry in chain(*zip_longest(first, second)) if entry is not None]
