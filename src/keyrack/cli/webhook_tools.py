"""Tools for receivers of webhooks: check a signature, and print received webhooks."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli import api_calls, profiles, webhook_listener
from keyrack.cli.api_calls import ForCustomer, ProfileName
from keyrack.cli.database_session import Json, explained
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.core.api_client.session import Client
from keyrack.webhooks.signature_check import diagnose_signature

app = typer.Typer()

LONGEST_BODY = 10_000_000  # bytes of a received webhook
READ_TIMEOUT = 30  # seconds without data, after which a connection is closed

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
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any. Default: 4000.")
    ] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", metavar="whsec_...", help="Verify signatures with this signing secret.")
    ] = None,
    status: Annotated[
        int | None, typer.Option("--status", min=200, max=599, help="Respond with this status. Default: 204.")
    ] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Fetch messages from the server instead of listening.")] = False,
    forward_to: Annotated[
        str | None, typer.Option("--forward-to", metavar="URL", help="With --pull: send the messages to this receiver.")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help="With --pull: event type, such as 'car.*'. Repeatable. Default: outcomes."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the webhook that --pull has created.")] = False,
    count: Annotated[
        int, typer.Option("--count", min=0, max=INT32_MAX, help="Stop after this many webhooks; 0 for never.")
    ] = 0,
    customer: ForCustomer = None,
    profile: ProfileName = profiles.DEFAULT,
    as_json: Json = False,
) -> None:
    """Receive webhooks during development, with or without an open port.

    Without --pull, --forward-to, --kind and --remove, it listens on a local port, and prints and verifies webhooks. The
    server must allow 127.0.0.0/8 as a network of receivers.

    With one of them, it fetches messages as the caller of `keyrack login`. It creates a pull webhook for this profile,
    and shows its signing secret once. A message is acknowledged when the receiver has answered 2xx, or was printed.
    """
    if not (pull or forward_to or kinds or remove):
        explained(lambda: _serve(4000 if port is None else port, secret, status or 204, count, as_json))
        return

    async def work() -> None:
        local = {"--port": port, "--secret": secret, "--status": status}
        if given := [name for name, value in local.items() if value is not None]:
            raise CommandFailed(f"{given[0]} is for a local port, so it does not go with --pull.")
        receiver = None if forward_to is None else webhook_listener.check_receiver(forward_to)
        async with api_calls.client_of(profile, customer) as client:
            if remove:
                show(await _removed(client, webhook_listener.name_of(profile)), as_json)
                return
            with webhook_listener.only_listener(profile):
                webhook = await webhook_listener.prepare(client, webhook_listener.name_of(profile), kinds or [])
                show(_listening(webhook, receiver), as_json)
                sys.stdout.flush()
                await webhook_listener.WebhookListener(client, webhook, receiver, as_json, count).run()

    api_calls.run(work(), profile)


async def _removed(client: Client, name: str) -> CommandResult:
    row = await webhook_listener.find(client, name)
    if row is None:
        raise CommandFailed(f"There is no webhook '{name}'.")
    await client.write("DELETE", f"/webhooks/{row['id']}")
    return CommandResult({"id": row["id"]}, f"Webhook {row['id']} removed.")


def _listening(webhook: webhook_listener.Listened, receiver: str | None) -> CommandResult:
    value = {"id": webhook.id, "name": webhook.name, "signingSecret": webhook.secret, "forwardTo": receiver}
    lines = [f"Webhook {webhook.id}, '{webhook.name}'."]
    if webhook.secret is not None:
        lines.append(f"Signing secret: {webhook.secret}\nIt is shown only once, and stays the same until --remove.")
    else:
        lines.append("The signing secret is the one that was shown when the webhook was created.")
    target = "Printing its messages." if receiver is None else f"Forwarding its messages to {receiver}."
    return CommandResult(value, "\n".join([*lines, f"{target} Stop with Ctrl-C."]))


@app.command("trigger")
def trigger(
    type: Annotated[str, typer.Argument(metavar="TYPE", help="Event type, such as assignment.created.")],
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a property, such as carId=7. Repeatable."),
    ] = None,
    webhook: Annotated[
        int | None,
        typer.Option("--webhook", min=1, max=INT32_MAX, help="Id of the webhook. Default: that of --pull."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also send to a webhook with an address.")] = False,
    customer: ForCustomer = None,
    profile: ProfileName = profiles.DEFAULT,
    as_json: Json = False,
) -> None:
    """Send an example of an event type to one webhook. Nothing is created.

    The message is the example of the API reference, signed, with `"test": true` and an operation id of zeros.
    """

    async def work() -> None:
        body = {"type": type, "set": dict(map(_assigned, values or []))}
        async with api_calls.client_of(profile, customer) as client:
            row = await _target(client, webhook, profile)
            if "pull" not in row:  # such a server ignores the body, and sends a plain test
                raise CommandFailed("The server is too old for tests of an event type. Upgrade it.")
            if row["url"] is not None and not yes:
                raise CommandFailed(
                    f"Webhook {row['id']} sends to {row['url']}. Add --yes to send a test to that receiver."
                )
            sent = await client.write("POST", f"/webhooks/{row['id']}/test", body)
        result = {"id": sent["id"], "webhook": row["id"], "type": type}
        show(CommandResult(result, f"Delivery {sent['id']} of webhook {row['id']} is queued."), as_json)

    api_calls.run(work(), profile)


async def _target(client: Client, webhook: int | None, profile: str) -> Mapping[str, Any]:
    """The webhook with this id, or that of `listen`. Raises `ApiError`, `CommandFailed`."""
    if webhook is not None:
        return await client.get(f"/webhooks/{webhook}")
    row = await webhook_listener.find(client, webhook_listener.name_of(profile))
    if row is None:
        raise CommandFailed(
            "Name the webhook with --webhook ID, or start `keyrack webhook listen --forward-to URL` first."
        )
    return row


def _assigned(text: str) -> tuple[str, Any]:
    """The name and the value of `NAME=VALUE`. The value is JSON, or else a text. Raises `CommandFailed`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise CommandFailed(f"{text!r} is not a property and its value, such as carId=7.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _serve(port: int, secret: str | None, status: int, count: int, as_json: bool) -> None:
    """Listen on a local port. Raises `CommandFailed`."""
    left = count
    turn = threading.Lock()  # output in the order of responses; the last response is complete before the stop

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = READ_TIMEOUT

        def do_POST(self) -> None:
            nonlocal left
            length = _length(self.headers.get("Content-Length") or "0")
            if length is None:
                self.close_connection = True
                self.send_error(400, f"Content-Length must be an integer from 0 to {LONGEST_BODY}")
                return
            body = self.rfile.read(length)
            if len(body) < length:  # the sender has gone, and sends the webhook again
                self.close_connection = True
                return
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


def _length(text: str) -> int | None:
    """The value of `Content-Length`; None if it is invalid or too large."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LONGEST_BODY))):
        return None
    return length if (length := int(text)) <= LONGEST_BODY else None


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
