"""`python -m pipelines` is `recsys-attn`, for processes that this package starts itself."""

from __future__ import annotations

from pipelines.cli.commands import main

if __name__ == "__main__":
    main(prog_name="recsys-attn")
