"""Calls of the API from the command line: profile, customer and exit status.

No module of the server is loaded for them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from keyrack.cli import profiles
from keyrack.cli.output import CommandFailed, visible
from keyrack.core.api_client.credentials import Login, ServerAddress, StoredToken
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.retries import RetryPolicy
from keyrack.core.api_client.session import Client

PATIENCE = RetryPolicy(attempts=4)  # few, because a user waits


def _profiles(incomplete: str) -> list[str]:
    return [name for name in profiles.names() if name.startswith(incomplete)]


ProfileName = Annotated[
    str,
    typer.Option(
        "--profile", envvar="KEYRACK_PROFILE", metavar="NAME", help="A profile saved by `keyrack login`.",
        autocompletion=_profiles,
    ),
]  # fmt: skip
ForCustomer = Annotated[
    str | None, typer.Option("--customer", metavar="ID|NAME", help="Use this customer instead of the profile's.")
]


def password_in(path: str) -> str:
    """The password in a file, without the line end. Raises `CommandFailed`."""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandFailed(f"The password file {path} cannot be read: {reason}.") from None


def _login_of(profile: profiles.Profile) -> Login | None:
    """The login that replaces an expired token: from the password file, or from the environment for the same user."""
    if profile.password_file is not None:
        return Login(profile.username, password_in(profile.password_file))
    given = os.environ.get("KEYRACK_PASSWORD")
    if given and os.environ.get("KEYRACK_USERNAME") == profile.username:
        return Login(profile.username, given)
    return None


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer that the manager acts for."""

    id: int
    name: str


@asynccontextmanager
async def client_of(name: str, customer: str | None = None) -> AsyncGenerator[Client]:
    """A client that is authenticated by a profile. Raises `CommandFailed`, `ApiError`.

    A renewed token is saved in the profile.
    """
    profile = profiles.read(name)

    def keep(token: StoredToken) -> None:
        nonlocal profile
        profile = replace(profile, token=token)
        profiles.write(name, profile)

    def client(customer: int | None) -> Client:
        server = ServerAddress(profile.url, profile.api_key, customer, profile.brand)
        return Client(server, _login_of(profile), profile.token, on_token=keep, patience=PATIENCE)

    whose = profile.customer
    if customer is not None:
        async with client(None) as asking:
            whose = (await customer_of(asking, customer)).id
    async with client(whose) as api_client:
        yield api_client


async def customer_of(client: Client, name_or_id: str | None) -> Customer:
    """The customer with this id or name; without one, the only customer. Raises `CommandFailed`, `ApiError`."""
    rows = [Customer(int(row["id"]), str(row.get("name", ""))) for row in await client.get("/customers", [])]
    there = ", ".join(f"{customer.id} ({customer.name})" for customer in rows) or "none"
    if name_or_id is None:
        if len(rows) == 1:
            return rows[0]
        raise CommandFailed(f"Choose a customer with --customer ID or NAME. Available: {there}.")
    matches = [customer for customer in rows if name_or_id in (str(customer.id), customer.name)]
    matches = matches or [customer for customer in rows if customer.name.lower() == name_or_id.lower()]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise CommandFailed(f"The manager does not act for customer {name_or_id}. Available: {there}.")
    raise CommandFailed(f"Several customers are called {name_or_id}. Use the id. Available: {there}.")


def run(work: Coroutine[Any, Any, None], profile: str) -> None:
    """Run a call of the API; an error becomes one line on standard error.

    The exit status is the class of the response: 0 for 2xx; 3, 4 or 5 for 3xx, 4xx or 5xx; 1 without a response.
    """
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:  # `keyrack ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except CommandFailed as failed:
        typer.echo(visible(f"keyrack: {failed}"), err=True)
        raise typer.Exit(1) from None
    except ApiError as error:
        hint = f" Log in again: keyrack login --profile {profile}" if error.status == 401 else ""
        text = str(error)
        end = "" if text.endswith((".", "?", "!")) else "."
        typer.echo(visible(f"keyrack: {text}{end}{hint}"), err=True)
        raise typer.Exit(status_of(error.status)) from None


def status_of(status: int | None) -> int:
    """The exit status for the status of a response."""
    return 1 if status is None else 0 if status < 300 else status // 100
