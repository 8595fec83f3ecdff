"""The metrics endpoint of running commands, and the command that lists all metrics."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from keyrack.cli.database_session import Json
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings

if TYPE_CHECKING:
    from keyrack.ops.monitoring.metrics_server import Reports

app = typer.Typer()

MetricsFd = Annotated[int | None, typer.Option("--metrics-fd", hidden=True)]  # the connection to the parent process


def reports_of(settings: Settings, parent: int | None) -> Reports:
    """The receiver of the process's metrics.

    It is the parent process, else the configured port, else none. Raises `CommandFailed`.
    """
    from keyrack.ops.monitoring.metrics_server import NOWHERE, Reports
    from keyrack.server import process as running

    if parent is not None:
        return Reports(parent=socket.socket(fileno=parent))
    if settings.metrics_at is None:
        return NOWHERE
    host, port = settings.metrics_at
    try:
        return Reports(port=running.listen(host, port))
    except running.PortInUse:
        raise CommandFailed(f"KEYRACK_METRICS: port {port} at {host} is in use. Each command needs its own.") from None
    except OSError as error:
        raise CommandFailed(
            f"KEYRACK_METRICS: Keyrack cannot listen on {host}, port {port}: {error.strerror}."
        ) from None


@app.command("metrics")
def metrics(
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page of docs/ as Markdown.")] = False,
) -> None:
    """List the metrics that KEYRACK_METRICS offers to Prometheus."""
    from keyrack.core.metrics.reference import metrics_json, metrics_markdown

    if markdown:
        print(metrics_markdown(), end="")
    elif as_json:
        print(json.dumps(metrics_json(), indent=2))
    else:
        for row in metrics_json():
            print(f"{row['kind']:<10}{row['name']}\n    {row['help']}")
