"""Tools for receivers of webhooks: check a signature, and print received webhooks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.database_session import Json, explained
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.webhooks.signature_check import diagnose_signature

app = typer.Typer()

Secret = Annotated[str, typer.Option("--secret", metavar="whsec_...", help="The webhook's signing secret.")]


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(metavar="BODY", help="File with the body as received; - for standard input.")],
    secret: Secret,
    id: Annotated[str, typer.Option("--id", help="The `webhook-id` header.")] = "",
    timestamp: Annotated[str, typer.Option("--timestamp", help="The `webhook-timestamp` header.")] = "",
    signature: Annotated[str, typer.Option("--signature", help="The `webhook-signature` header.")] = "",
    as_json: Json = False,
) -> None:
    """Verify the signature of a received webhook, and explain a failure."""

    def run() -> None:
        try:
            body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise CommandFailed(f"{file} cannot be read: {error.strerror}.") from None
        headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
        verdict = diagnose_signature(headers, body, secret, datetime.now(UTC))
        text = "The signature is valid." if verdict.genuine else "\n".join(verdict.reasons)
        show(CommandResult({"genuine": verdict.genuine, "reasons": verdict.reasons}, text), as_json)
        if not verdict.genuine:
            raise typer.Exit(1)

    explained(run)


@app.command("listen")
def listen(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 4000,
    secret: Annotated[
        str | None, typer.Option("--secret", metavar="whsec_...", help="Verify signatures with this signing secret.")
    ] = None,
    status: Annotated[int, typer.Option("--status", min=200, max=599, help="Respond with this status.")] = 204,
    count: Annotated[
        int, typer.Option("--count", min=0, max=INT32_MAX, help="Stop after this many webhooks; 0 for never.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Listen on a local port, and print and verify webhooks.

    The server must allow 127.0.0.0/8 as a network of receivers.
    """

    def run() -> None:
        left = count
        turn = threading.Lock()  # output in the order of responses; the last response is complete before the stop

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                nonlocal left
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with turn:
                    show(_received_result(dict(self.headers.items()), body, secret), as_json)
                    sys.stdout.flush()
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    left -= 1
                    if count and left <= 0:
                        self.server.shutdown()

            def log_message(self, format: str, *args: object) -> None: ...

        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise CommandFailed(f"Keyrack cannot listen on port {port}: {error.strerror}.") from None
        where = f"http://127.0.0.1:{server.server_address[1]}/"
        show(CommandResult({"url": where}, f"Listening on {where}. Stop with Ctrl-C."), as_json)
        sys.stdout.flush()
        with server:
            server.serve_forever(0.05)

    explained(run)


def _received_result(headers: Mapping[str, str], body: bytes, secret: str | None) -> CommandResult:
    """A received webhook, and whether its signature is valid."""
    text = body.decode(errors="replace")
    value: dict[str, Any] = {"headers": headers, "body": text}
    lines = [
        f"{name}: {content}" for name, content in headers.items() if name.lower().startswith(("webhook-", "secret"))
    ]
    if secret is not None:
        verdict = diagnose_signature(headers, body, secret, datetime.now(UTC))
        value |= {"genuine": verdict.genuine, "reasons": verdict.reasons}
        lines.append("The signature is valid." if verdict.genuine else "NOT VALID: " + " ".join(verdict.reasons))
    return CommandResult(value, "\n".join([*lines, text, ""]))
