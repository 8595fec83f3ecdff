"""Commands on the database itself: PostgreSQL programs, the major upgrade, and the configuration of PgBouncer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_opening import embedded_server
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.core.settings import Settings
from keyrack.db.embedded.major_upgrade import upgrade as upgrade_data
from keyrack.db.session_settings import KEPT_BY_POOLER, session
from keyrack.server.worker import PARAMETERS

LONGEST_QUERY = 505  # bytes of a connect_query; PgBouncer 1.18 closes the connection after a longer one

app = typer.Typer()

Program = Annotated[list[str], typer.Argument(metavar="PROGRAM...", help="The program with its options.")]


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(program: Program, state: State = None) -> None:
    """Run a program such as pg_dump, pg_restore or psql on the embedded database, which is started if needed.

    Programs of the database's own version come first in PATH; PGHOST, PGUSER and PGDATABASE lead to the database. The
    schema is not migrated. The exit status is that of the program.
    """

    def work() -> None:
        settings = _of_our_own(state, "run the program yourself")
        check_beginning(settings, "database run", named=state is not None)  # for pg_restore
        with embedded_server(settings) as server:
            environment = os.environ | server.environment()
            try:
                status = subprocess.run(program, env=environment, check=False).returncode
            except OSError as error:
                raise CommandFailed(f"{program[0]} cannot be run: {error.strerror}.") from None
        if status:
            raise typer.Exit(status if status > 0 else 128 - status)

    explained(work)


@app.command("pgbouncer")
def pgbouncer(state: State = None, as_json: Json = False) -> None:
    """Print the pgbouncer.ini for these settings, in transaction mode.

    PgBouncer passes on hardly any session setting. So it sets them itself in each server connection, and ignores those
    that clients send.
    """

    def work() -> None:
        parameters = session(read_settings(state))
        query = "".join(
            [f"set {name}={_value(value)};" for name, value in parameters.items() if name not in KEPT_BY_POOLER]
        )
        if len(query.encode()) > LONGEST_QUERY:
            raise CommandFailed(
                f"The connect_query would have {len(query.encode())} bytes, but PgBouncer accepts at most "
                f"{LONGEST_QUERY}. Set a shorter KEYRACK_PUBLIC_URL."
            )
        database = f"host=127.0.0.1 port=5432 dbname=keyrack connect_query={_quoted(query)}"
        sections = {
            "databases": {"keyrack": database},
            "pgbouncer": {
                "pool_mode": "transaction", "ignore_startup_parameters": ", ".join([*parameters, *PARAMETERS]),
            },
        }  # fmt: skip
        blocks = [
            "\n".join([f"[{name}]", *(f"{key} = {value}" for key, value in lines.items())])
            for name, lines in sections.items()
        ]
        show(CommandResult(sections, "\n\n".join(blocks)), as_json)

    explained(work)


@app.command("upgrade")
def upgrade(
    old: Annotated[Path, typer.Option("--from", metavar="DIR", help="Directory of the old version's programs.")],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Upgrade the embedded database to the major version of the installed PostgreSQL programs.

    Nothing else may use the database. The data are copied; the old data are kept, for example as pgdata.15.
    """

    def work() -> None:
        settings = _of_our_own(state, "upgrade it yourself")
        kept, version = upgrade_data(
            settings.state, old, bin_dir=settings.postgres_bin, say=lambda text: typer.echo(text, err=True)
        )
        text = f"The data are upgraded to PostgreSQL {version}. The old data are in {kept}: delete them after a check."
        show(CommandResult({"version": version, "old": str(kept)}, text), as_json)

    explained(work)


def _value(text: str) -> str:
    """The value of a parameter in `set`, with quotes only if it needs them."""
    return text if text.isdigit() or text in ("on", "off") else _quoted(text)


def _quoted(text: str) -> str:
    """A literal of SQL; pgbouncer.ini has the same syntax."""
    return "'" + text.replace("'", "''") + "'"


def _of_our_own(state: Path | None, instead: str) -> Settings:
    """The settings, if they name an embedded database. Raises `CommandFailed`."""
    settings = read_settings(state)
    if settings.database_url is not None:
        raise CommandFailed(f"KEYRACK_DATABASE_URL selects an external server: {instead}.")
    return settings
