"""The pull webhook of a profile, and a listener for its messages.

The messages go to a local receiver, or to standard output.

A message is acknowledged after the receiver has answered 2xx. So a listener that is killed loses none, and its receiver
may get the last message twice. After a failure the messages are fetched again, because a signature expires after
minutes.
"""

from __future__ import annotations

import asyncio
import fcntl
import getpass
import os
import socket
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlsplit

import typer

from keyrack.cli import profiles
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.core.api_client.forwarding import Forwarder, ForwardResult
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.retries import PASSING, RetryPolicy
from keyrack.core.api_client.session import Client

WAIT = 30  # seconds that the server may wait for a message
TOP = 50  # messages of one request
UNUSED_DAYS = 7  # days after which the server deletes an unused webhook of a listener
BACKOFF = RetryPolicy(first_pause=1.0, max_pause=30.0)


@dataclass(frozen=True, slots=True)
class Listened:
    """The pull webhook of a profile. `secret` is known only if it was just created."""

    id: int
    name: str
    secret: str | None = None


@dataclass(slots=True)
class WebhookListener:
    """Passes on the messages of one webhook. `count` 0 is without an end."""

    client: Client
    webhook: Listened
    receiver: str | None
    as_json: bool
    count: int = 0
    _failures: int = field(default=0, init=False)
    _acknowledged: int = field(default=0, init=False)

    async def run(self) -> None:
        """Fetch, pass on and acknowledge messages until `count` are done. Raises `ApiError`, `CommandFailed`."""
        opened = nullcontext() if self.receiver is None else Forwarder.open(self.receiver)
        async with opened as forwarder:
            while not (self.count and self._acknowledged >= self.count):
                try:
                    done = await self._pass_on(forwarder, await self._fetch())
                except ApiError as error:
                    if not _is_passing(error):
                        raise _explained(error, self.webhook) from None
                    await self._pause(f"The server does not answer: {error}")
                    continue
                if done:
                    self._failures = 0

    async def _fetch(self) -> Sequence[Mapping[str, Any]]:
        left = min(TOP, self.count - self._acknowledged) if self.count else TOP
        return await self.client.get(f"/webhooks/{self.webhook.id}/messages?wait={WAIT}&top={left}")

    async def _pass_on(self, forwarder: Forwarder | None, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Pass on messages in their order up to the first failure. Returns False after a failure."""
        for message in messages:
            if forwarder is None:
                self._print(message)
            else:
                forwarded = await forwarder.forward(message["body"], message["headers"])
                pause = None if forwarded.succeeded else BACKOFF.pause(self._failures + 1, None)
                self._report(message, forwarded, pause)
                if pause is not None:
                    self._failures += 1
                    await asyncio.sleep(pause)
                    return False
            await self.client.write("POST", f"/webhooks/{self.webhook.id}/messages/ack", {"upto": message["number"]})
            self._acknowledged += 1
            self._failures = 0
        return True

    def _print(self, message: Mapping[str, Any]) -> None:
        headers = cast("Mapping[str, str]", message["headers"])
        lines = [f"{name}: {value}" for name, value in headers.items()]
        show(CommandResult(message, "\n".join([*lines, str(message["body"]), ""])), self.as_json)
        sys.stdout.flush()

    def _report(self, message: Mapping[str, Any], forwarded: ForwardResult, pause: float | None) -> None:
        value = {
            "number": message["number"], "type": message["type"], "status": forwarded.status,
            "error": forwarded.error, "acknowledged": forwarded.succeeded,
        }  # fmt: skip
        answer = forwarded.error or f"{forwarded.status}  {forwarded.milliseconds} ms"
        again = "" if pause is None else f"  Retry in {pause:.0f} s."
        show(CommandResult(value, f"{time.strftime('%H:%M:%S')}  {message['type']}  {answer}{again}"), self.as_json)
        sys.stdout.flush()

    async def _pause(self, reason: str) -> None:
        self._failures += 1
        pause = BACKOFF.pause(self._failures, None)
        typer.echo(f"keyrack: {reason.rstrip('.')}. Retry in {pause:.0f} s.", err=True)
        await asyncio.sleep(pause)


def name_of(profile: str) -> str:
    """The name of the profile's webhook on this computer."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in a container
        user = str(os.getuid())
    name = f"listen: {user}@{socket.gethostname()}"
    return name if profile == profiles.DEFAULT else f"{name} ({profile})"


def check_receiver(url: str) -> str:
    """The address of a receiver. Raises `CommandFailed`."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise CommandFailed(f"{url!r} is not an address such as http://127.0.0.1:3000/hook.")
    return url


@contextmanager
def only_listener(profile: str) -> Generator[None]:
    """Lock the profile: two listeners would acknowledge each other's messages. Raises `CommandFailed`.

    The system releases the lock when the process ends, however it ends.
    """
    path = profiles.path_of(profile).with_suffix(".listen")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandFailed(
                f"Another `keyrack webhook listen` of profile {profile} is running. Stop it, or use another profile."
            ) from None
        yield
    finally:
        os.close(descriptor)


async def find(client: Client, name: str) -> Mapping[str, Any] | None:
    """The oldest pull webhook with this name; None if there is none. Raises `ApiError`."""
    quoted = name.replace("'", "''")
    filter = quote(f"pull eq true and name eq '{quoted}'")
    try:
        rows = await client.get(f"/webhooks?$filter={filter}&$orderby=id&$top=1")
    except ApiError as error:
        raise _too_old(error) from None
    return rows[0] if rows else None


async def prepare(client: Client, name: str, kinds: Sequence[str]) -> Listened:
    """The webhook with this name, for these event types. Creates it if it is missing. Raises `ApiError`.

    Without `kinds`, an existing webhook keeps its event types.
    """
    row = await find(client, name)
    if row is None:
        body = {"pull": True, "name": name, "deleteUnusedAfterDays": UNUSED_DAYS, "kinds": list(kinds) or None}
        made = await client.write("PUT", "/webhooks", body)
        return Listened(made["id"], name, made["signingSecret"])
    steps: list[dict[str, Any]] = [] if row["enabled"] else [{"op": "replace", "path": "/enabled", "value": True}]
    if kinds:
        steps.append({"op": "replace", "path": "/kinds", "value": list(kinds)})
    if steps:
        await client.write("PATCH", f"/webhooks/{row['id']}", steps)
    return Listened(row["id"], name)


def _is_passing(error: ApiError) -> bool:
    """Whether the same request can succeed later. An expired login has no status of a response."""
    return error.status in PASSING or error.status is None


def _explained(error: ApiError, webhook: Listened) -> ApiError:
    if error.status == 404:
        return ApiError(f"Webhook {webhook.id} was deleted. Start the command again to create a new one.", 404)
    return error


def _too_old(error: ApiError) -> ApiError:
    """An older server does not know the property `pull`."""
    if error.status == 400:
        return ApiError(f"The server knows no pull webhooks. Upgrade it. Its answer: {error}", 400)
    return error
