"""The commands on the embedded database as such: PostgreSQL's own programs, run on it."""

from __future__ import annotations

import os
import subprocess
from typing import Annotated

import typer

from keyrack.commands.session import Failed, State, embedded_server, explained, read_settings

app = typer.Typer()

Program = Annotated[list[str], typer.Argument(metavar="PROGRAM...", help="The program with its options.")]


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(program: Program, state: State = None) -> None:
    """Run a program such as pg_dump, pg_restore or psql on the embedded database, which need not be running.

    The programs of the database's own version come first; they find it by PGHOST, PGUSER and PGDATABASE. Nothing is
    migrated. The exit status is that of the program.
    """

    def work() -> None:
        settings = read_settings(state)
        if settings.database_url is not None:
            raise Failed("KEYRACK_DATABASE_URL names a server that is not Keyrack's own: run the program yourself.")
        with embedded_server(settings) as server:
            environment = os.environ | server.environment()
            try:
                status = subprocess.run(program, env=environment, check=False).returncode
            except OSError as error:
                raise Failed(f"Cannot run {program[0]}: {error.strerror}.") from None
        if status:
            raise typer.Exit(status if status > 0 else 128 - status)

    explained(work)
