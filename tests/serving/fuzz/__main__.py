"""`python -m tests.serving.fuzz --requests 200000 --seed 0`: the long run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from tests.serving.commands import free_port
from tests.serving.exports import install, write_model
from tests.serving.fuzz.run import OPTIONS, run


@click.command()
@click.option("--requests", default=200_000, show_default=True, help="Number of requests.")
@click.option("--seed", default=0, show_default=True, help="Seed of the requests.")
@click.option("--replay", type=int, help="Send the request of this number alone.")
def main(requests: int, seed: int, replay: int | None) -> None:
    """Send malformed requests to a server, and good ones beside them."""
    numbers = range(requests) if replay is None else range(replay, replay + 1)
    with tempfile.TemporaryDirectory() as folder:
        base_path = Path(folder) / "tiny"
        install(write_model(Path(folder) / "export", 2.0), base_path, 5)
        config = ServerConfig(str(base_path), port=0, rest_api_port=free_port(), **OPTIONS)
        server, port = create_server(config)
        server.start()
        codes, violations = run(f"127.0.0.1:{port}", config.rest_api_port, seed, numbers)
        server.stop()
    click.echo(dict(codes))
    for text in violations:
        click.echo(f"--seed {seed}: {text}")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()
