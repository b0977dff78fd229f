"""The commands `serve` and `request`; only `serve` imports TensorFlow, when it runs."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from serving.config.click_options import GroupedCommand, either_spelling, options_of
from serving.config.server_config import ServerConfig

if TYPE_CHECKING:
    from serving.server.server import Server

_LOGGER = logging.getLogger(__name__)
_PEM = click.Path(path_type=Path)


class StartError(click.ClickException):
    """The error for a server that cannot start, in one sentence."""

    exit_code = 2


@click.command(cls=GroupedCommand, context_settings={"token_normalize_func": either_spelling})
@options_of(ServerConfig)
def serve(**options: Any) -> None:
    """Serve models over gRPC and REST.

    Speaks TensorFlow Serving's protocol. Serves the newest version in the folder, and loads new
    versions when they appear. Until a model is loaded, its requests get UNAVAILABLE. SIGTERM and
    Ctrl-C let running requests finish. Options of TensorFlow Serving may keep their spelling, such
    as --model_base_path.
    """
    from serving.server import process

    logs_json = options["log_format"] == "json"
    (process.silence_native_code if logs_json else process.silence_grpc)()
    from serving.common.errors import ServingError
    from serving.common.logs import set_up
    from serving.server.signals import Signals

    set_up(options["log_format"])
    try:
        config = ServerConfig(**options)
        with Signals(process.SIGNALS) as signals:
            server, port = process.start_server(config, signals)
            if not logs_json:
                _print_models(server)
            _print_address(server, port, logs_json)
            process.serve(server, signals)
    except (ServingError, ValueError) as error:
        if logs_json:
            _LOGGER.critical("%s", error)
            sys.exit(StartError.exit_code)
        raise StartError(str(error)) from error


def _print_address(server: Server, port: int, logs_json: bool) -> None:
    config, rest = server.config, server.listener.rest
    addresses = [f"{config.address_of(port)} (gRPC)"]
    if config.grpc_socket_path:
        addresses.append(f"unix:{config.grpc_socket_path} (gRPC)")
    if rest is not None:
        addresses.append(f"{config.address_of(rest.port)} (REST)")
    line = f"Listening on {', '.join(addresses)}. Stop with Ctrl-C."
    if logs_json:
        _LOGGER.info("%s", line)
    else:
        Console(soft_wrap=True).print(line)


def _print_models(server: Server) -> None:
    """Prints the served models."""
    from serving.server.served import served_model

    for name, versions in server.manager.models.items():
        if not versions.is_available:  # loaded later, by a reload or from the backend
            continue
        with server.manager.lease(name) as model:
            Console().print(served_model(model))


@click.command()
@click.option(
    "--address",
    "addresses",
    multiple=True,
    default=["localhost:8500"],
    show_default=True,
    help="host:port of a server, or a name such as dns:///ctr:8500. May be repeated.",
)
@click.option("--model", help="Name of the model.  [default: the only model of the server]")
@click.option(
    "--file",
    default="-",
    type=click.Path(allow_dash=True),
    help="File with the request; - is the standard input.  [default: -]",
)
@click.option(
    "--timeout",
    default=5.0,
    type=click.FloatRange(min=0, min_open=True),
    show_default=True,
    help="Seconds to wait for an answer.",
)
@click.option("--tls", is_flag=True, help="Encrypt, and trust public authorities.")
@click.option("--tls-ca", type=_PEM, help="Encrypt, and trust the authorities in this PEM file.")
@click.option("--tls-cert", type=_PEM, help="Encrypt, and present this client certificate.")
@click.option("--tls-key", type=_PEM, help="Private key of --tls-cert.")
@click.option("--tls-server-name", help="Name in the server's certificate.  [default: the host]")
@click.option(
    "--token",
    envvar="RECSYS_ATTN_TOKEN",
    help="Bearer token; prefer the environment variable RECSYS_ATTN_TOKEN.",
)
@click.option("--by", help="Task to rank candidates by.  [default: the first of the export]")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def request(
    addresses: tuple[str, ...],
    model: str | None,
    file: str,
    timeout: float,
    token: str | None,
    by: str | None,
    as_json: bool,
    **tls: Any,
) -> None:
    """Send raw features as JSON and print the scores.

    Rows are scored independently:

    \b
      {"rows": [{"user_id": "u7", "age": 31, "clicked_items": ["i1", "i2"]},
                {"user_id": "u8", "age": null}]}

    Candidates of one context are ranked, best first:

    \b
      {"context": {"user_id": "u7", "clicked_items": ["i1", "i2"]},
       "candidates": [{"item_id": "i3", "price": 9.5}, {"item_id": "i4"}]}

    Absent features and null are missing values. The second form is also the body of REST's :rank:
    "rank_by", "top_k" and, with --json, "explain" may stand beside "candidates".
    """
    from serving.server.process import silence_grpc

    silence_grpc()
    from serving import cli_output
    from serving.client import Client, Tls
    from serving.common.errors import ServingError

    security = Tls(tls["tls_ca"], tls["tls_cert"], tls["tls_key"], tls["tls_server_name"])
    try:
        document = cli_output.read_document(
            _read_request(file), "The standard input" if file == "-" else file, as_json
        )
        with Client(
            addresses,
            model=model,
            timeout=timeout,
            tls=security if any(tls.values()) else False,
            token=token or None,
        ) as client:
            answer = cli_output.answer(client, document, by)
        if as_json:
            click.echo(answer.to_json())
        else:
            Console().print(answer.table())
    except ServingError as error:
        raise click.ClickException(str(error)) from error


def _read_request(file: str) -> bytes:
    if file == "-":
        if sys.stdin.isatty():
            raise click.ClickException("Name a file with --file, or pipe the request in.")
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}.") from error
