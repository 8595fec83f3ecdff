"""Login and logout: the token is stored in a profile, the password is not stored."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from keyrack.cli import api_calls, profiles
from keyrack.cli.api_calls import ProfileName
from keyrack.cli.output import CommandFailed, CommandResult, Json, show
from keyrack.core.api_client.credentials import Login, ServerAddress, StoredToken
from keyrack.core.api_client.session import Client

app = typer.Typer()

BASE = "/v3"  # the default path of an address
LOCAL = ("localhost", "127.0.0.1", "::1")

Url = Annotated[str | None, typer.Option("--url", envvar="KEYRACK_URL", help="The server's address, with /v3.")]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", envvar="KEYRACK_API_KEY", help="The API key. Prefer the environment variable."),
]
Username = Annotated[str | None, typer.Option("--username", envvar="KEYRACK_USERNAME", help="The manager's user name.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="File with the password; read again whenever the token expires."
    ),
]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
OfCustomer = Annotated[
    str | None,
    typer.Option(
        "--customer", envvar="KEYRACK_CUSTOMER_ID", metavar="ID|NAME", help="The customer. Default: the only one."
    ),
]
Brand = Annotated[str, typer.Option("--brand", envvar="KEYRACK_BRAND", help="Brand in the API key header.")]


@app.command("login")
def login(
    url: Url = None,
    username: Username = None,
    password_file: PasswordFile = None,
    password_stdin: PasswordStdin = False,
    api_key: ApiKey = None,
    customer: OfCustomer = None,
    brand: Brand = "vendor",
    profile: ProfileName = profiles.DEFAULT,
    as_json: Json = False,
) -> None:
    """Log in to a server, and save the token in a profile for `keyrack api`, `cars`, `users` and similar commands.

    A terminal prompts for missing values. The password comes from --password-stdin, --password-file, KEYRACK_PASSWORD
    or a hidden prompt, and is not stored.
    """

    async def work() -> None:
        path = profiles.path_of(profile)
        address = _address(url or _prompt("Server", "--url"))
        server = ServerAddress(address, api_key or _prompt("API key", "--api-key", secret=True), None, brand)
        name = username or _prompt("User name", "--username")
        secret = _password(password_file, password_stdin)
        tokens: list[StoredToken] = []
        async with Client(server, Login(name, secret), on_token=tokens.append, patience=api_calls.PATIENCE) as client:
            chosen_customer = await api_calls.customer_of(client, customer)
        kept = profiles.Profile(server.url, name, server.api_key, brand, chosen_customer.id)
        kept = replace(kept, token=tokens[-1], password_file=password_file and str(password_file.absolute()))
        profiles.write(profile, kept)
        ends = None if tokens[-1].ends is None else datetime.fromtimestamp(tokens[-1].ends, UTC)
        value = {
            "profile": profile,
            "url": kept.url,
            "username": name,
            "customer": asdict(chosen_customer),
            "expiresAt": ends,
        }
        until = "" if ends is None else f" The token is valid until {ends:%Y-%m-%d %H:%M} UTC."
        whose = f"for customer {chosen_customer.id}, {chosen_customer.name}"
        show(CommandResult(value, f"{name} is logged in at {kept.url}, {whose}.{until} Saved in {path}."), as_json)

    api_calls.run(work(), profile)


@app.command("logout")
def logout(
    profile: ProfileName = profiles.DEFAULT,
    everything: Annotated[bool, typer.Option("--all", help="Delete all profiles.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a profile with its token."""

    async def work() -> None:
        wanted = profiles.names() if everything else [profile]
        gone = [name for name in wanted if profiles.remove(name)]
        text = f"Logged out: {', '.join(gone)}." if gone else "No profile was logged in."
        show(CommandResult({"profiles": gone}, text), as_json)

    api_calls.run(work(), profile)


def _address(text: str) -> str:
    """The server's address with its base path. Raises `CommandFailed`; warns about an unencrypted connection."""
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise CommandFailed(f"{text!r} is not a server address such as https://keyrack.example.com/v3.")
    if parts.scheme == "http" and parts.hostname not in LOCAL:
        typer.echo(
            f"keyrack: {text} is not encrypted: others on the network can read the password and the token.", err=True
        )
    return parts._replace(path=parts.path.rstrip("/") or BASE).geturl()


def _password(file: Path | None, stdin: bool) -> str:
    if file is not None:
        return api_calls.password_in(str(file))
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return os.environ.get("KEYRACK_PASSWORD") or _prompt("Password", "--password-stdin", secret=True)


def _prompt(label: str, option: str, *, secret: bool = False) -> str:
    """The value that the user types. Raises `CommandFailed` without a terminal."""
    if not sys.stdin.isatty():
        raise CommandFailed(f"{label} is missing. Add {option}, or set it in the environment.")
    given = getpass.getpass(f"{label}: ") if secret else typer.prompt(label, err=True)
    if not given.strip():
        raise CommandFailed(f"{label} is missing.")
    return given.strip() if not secret else given
