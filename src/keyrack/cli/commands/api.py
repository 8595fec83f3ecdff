"""The command `api`, which sends any request to the API as the logged-in caller."""

from __future__ import annotations

import json
import sys
import uuid
from http.client import responses
from pathlib import Path
from typing import Annotated

import typer

from keyrack.cli import api_calls, profiles
from keyrack.cli.api_calls import ForCustomer, ProfileName
from keyrack.cli.output import CommandFailed, as_text, visible
from keyrack.core.api_client.responses import ApiResponse

app = typer.Typer()

METHODS = ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE")


def _methods(incomplete: str) -> list[str]:
    return [method for method in METHODS if method.startswith(incomplete.upper())]


Method = Annotated[
    str, typer.Argument(metavar="METHOD", help="HTTP method. Can be left out for GET.", autocompletion=_methods)
]


@app.command("api")
def api(
    method: Method,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Such as '/cars?$top=3'.")] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="TEXT", help="Request body; @FILE for a file, - for standard input."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="Request header. Repeatable.")
    ] = None,
    include: Annotated[bool, typer.Option("--include", "-i", help="Show status and headers of the response.")] = False,
    customer: ForCustomer = None,
    profile: ProfileName = profiles.DEFAULT,
) -> None:
    """Send a request to the API as the caller of `keyrack login`.

    A terminal shows indented JSON; a pipe gets the unchanged body. Writes carry an Idempotency-Key. Responses 429 and
    503 are retried after the time in Retry-After. The exit status is 0 for 2xx; 3, 4 or 5 for another class; 1 without
    a response.
    """

    async def work() -> None:
        verb, where = _request(method, path)
        body = None if data is None else _body(data)
        headers = _headers(header or [], verb, has_body=body is not None)
        async with api_calls.client_of(profile, customer) as client:
            answer = await client.call(verb, where, body, headers)
        _print(answer, include)
        if answer.status >= 300:
            raise typer.Exit(api_calls.status_of(answer.status))

    api_calls.run(work(), profile)


def _request(method: str, path: str | None) -> tuple[str, str]:
    if path is None:
        method, path = "GET", method
    if method.upper() not in METHODS:
        raise typer.BadParameter(f"{method!r} is not one of {', '.join(METHODS)}", param_hint="METHOD")
    if not path.startswith("/"):
        raise typer.BadParameter(f"{path!r} must begin with /, such as '/cars?$top=3'", param_hint="PATH")
    return method.upper(), path


def _body(data: str) -> bytes:
    """Raises `CommandFailed`."""
    if data == "-":
        return sys.stdin.buffer.read()
    if not data.startswith("@"):
        return data.encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{data[1:]} cannot be read: {error.strerror}.") from None


def _headers(given: list[str], method: str, *, has_body: bool) -> dict[str, str]:
    headers = {"Content-Type": "application/json"} if has_body else {}
    if method not in ("GET", "HEAD"):
        headers["Idempotency-Key"] = str(uuid.uuid4())
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise typer.BadParameter(f"{text!r} is not a header such as 'Prefer: return=minimal'", param_hint="-H")
        for existing in [header for header in headers if header.lower() == name.strip().lower()]:
            del headers[existing]
        headers[name.strip()] = value.strip()
    return headers


def _print(answer: ApiResponse, include: bool) -> None:
    if include:
        phrase = responses.get(answer.status, "")
        typer.echo(f"HTTP/1.1 {answer.status} {phrase}".rstrip())
        for name, value in answer.headers.items():
            typer.echo(visible(f"{name}: {value}"))
        typer.echo("")
    if not sys.stdout.isatty():
        sys.stdout.flush()
        typer.echo(answer.body, nl=False)
        return
    try:
        typer.echo(as_text(json.loads(answer.body), indent=2))
    except ValueError:
        typer.echo(visible(answer.body.decode(errors="replace")), nl=bool(answer.body))
