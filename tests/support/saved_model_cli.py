"""Runs signatures with TensorFlow's own `saved_model_cli`, without this project.

python saved_model_cli.py MODEL OUT RUNS.json, where a run is [signature, option, inputs]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = ("recsys_attn", "pipelines", "serving")


class Blocked:
    """A finder that has none of the project's modules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name.partition(".")[0] in PROJECT:
            raise ImportError(f"{name} is not there")


def main(model: str, out: str, runs: str) -> None:
    sys.meta_path.insert(0, Blocked())
    from tensorflow.python.tools import saved_model_cli

    for signature, option, inputs in json.loads(Path(runs).read_text()):
        given = {"--input_exprs": "", "--input_examples": "", option: inputs}
        sys.argv = ["saved_model_cli", "run", "--dir", model, "--tag_set", "serve"]
        sys.argv += ["--signature_def", signature, "--outdir", str(Path(out, signature))]
        sys.argv += [f"{key}={value}" for key, value in given.items()]  # else the last run's stay
        try:
            saved_model_cli.main()
        except SystemExit as end:
            if end.code:
                raise
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in PROJECT)
    if loaded:
        raise SystemExit(f"The project was imported: {loaded}")


if __name__ == "__main__":
    main(*sys.argv[1:])
