"""Commands that print Keyrack's reference: endpoints, roles, errors and the OpenAPI document."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from keyrack.cli.database_session import Json, explained, read_settings
from keyrack.cli.output import ListResult, show

app = typer.Typer()

Markdown = Annotated[bool, typer.Option("--markdown", help="Print the page of docs/ as Markdown.")]


@app.command("endpoints")
def endpoints(as_json: Json = False, markdown: Markdown = False) -> None:
    """List the endpoints of the API."""
    from keyrack.http.openapi.markdown_tables import endpoints_json, endpoints_markdown
    from keyrack.http.routes import ALL

    if markdown:
        print(endpoints_markdown(ALL), end="")
    elif as_json:
        print(json.dumps(endpoints_json(ALL), indent=2))
    else:
        rows = [{"method": endpoint.method, "path": endpoint.path, "what": endpoint.doc.summary} for endpoint in ALL]
        show(ListResult(rows, {"METHOD": "method", "PATH": "path", "SUMMARY": "what"}), False)


@app.command("roles")
def roles(as_json: Json = False, markdown: Markdown = False) -> None:
    """List the permissions of each role."""
    from keyrack.http.openapi.markdown_tables import roles_json, roles_markdown

    if markdown:
        print(roles_markdown(), end="")
    elif as_json:
        print(json.dumps(roles_json(), indent=2))
    else:
        show(ListResult(roles_json(), {"ROLE": "role", "DESCRIPTION": "meaning", "PERMISSIONS": "permissions"}), False)


@app.command("errors")
def errors(as_json: Json = False, markdown: Markdown = False) -> None:
    """List the error codes of the API."""
    from keyrack.http.openapi.error_catalog import codes
    from keyrack.http.openapi.error_reference import codes_json, codes_markdown
    from keyrack.http.routes import ALL

    table = codes(ALL)
    if markdown:
        print(codes_markdown(table), end="")
    elif as_json:
        print(json.dumps(codes_json(table), indent=2))
    else:
        rows = [{"status": row.status, "code": row.code, "remedy": row.remedy} for row in table]
        show(ListResult(rows, {"STATUS": "status", "CODE": "code", "REMEDY": "remedy"}), False)


@app.command("openapi")
def openapi(as_json: Json = False) -> None:
    """Print the OpenAPI 3.1 document as JSON."""
    from keyrack.http.openapi.document import document
    from keyrack.http.routes import ALL

    def run() -> None:
        print(json.dumps(document(ALL, read_settings()), indent=None if as_json else 2))

    explained(run)
