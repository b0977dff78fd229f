"""`python -m pipelines` runs `recsys-attn`."""

from __future__ import annotations

from pipelines.cli.commands import main

if __name__ == "__main__":
    main(prog_name="recsys-attn")
