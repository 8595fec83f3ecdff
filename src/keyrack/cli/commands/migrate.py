"""The command `migrate`, which upgrades the schema or shows the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyrack import __version__
from keyrack.cli.commands.run import running_database
from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_opening import embedded_server
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.cli.output import CommandResult, show
from keyrack.core import log_config
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.schema_version import SchemaStatus

if TYPE_CHECKING:
    from keyrack.db.migration_plan import PlannedRevision

app = typer.Typer()

# Exit status of --check; 1 and 2 are failures
STATUS = {
    schema_version.SchemaState.CURRENT: 0,
    schema_version.SchemaState.EMPTY: 3,
    schema_version.SchemaState.OLDER: 3,
    schema_version.SchemaState.NEWER: 4,
    schema_version.SchemaState.TOO_NEW: 5,
}


@app.command("migrate")
def migrate(
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing. Status 0: up to date, 3: pending, 4 or 5: newer."),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Change nothing, and show the pending migrations.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="With --plan: also show the SQL statements.")] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Upgrade the database schema. Concurrent calls wait for one another."""

    def run() -> None:
        settings = read_settings(state)
        log_config.configure(settings.log_level)
        if sql and not plan:
            raise typer.BadParameter("needs --plan", param_hint="--sql")
        if not check and not plan:
            check_beginning(settings, "migrate", named=state is not None)
            warn_of_names()
            with running_database(settings) as dsn:
                revision = asyncio.run(schema_version.read_schema_state(dsn)).revision
            show(CommandResult({"revision": revision}, f"The schema is at revision {revision}."), as_json)
            return
        warn_of_names()
        status = look(settings)
        show(_planned(status, sql) if plan else _status_result(status), as_json)
        if check:
            raise typer.Exit(STATUS[status.state])

    explained(run)


def look(settings: Settings) -> SchemaStatus:
    """The schema compared with this release. A missing embedded database counts as empty, and is not created.

    Raises `SchemaError` if a privilege is missing.
    """
    if settings.database_url is not None:
        return asyncio.run(
            schema_version.read_schema_state(settings.database_direct_url or settings.database_url, settings)
        )
    server = embedded_server(settings)
    if not server.made:
        return SchemaStatus(schema_version.SchemaState.EMPTY, None)
    with server:
        return asyncio.run(schema_version.read_schema_state(server.dsn))


def _status_result(status: SchemaStatus) -> CommandResult:
    return CommandResult(_members(status), _sentence(status))


def _members(status: SchemaStatus) -> dict[str, Any]:
    return {
        "state": status.state.value.replace(" ", "-"),
        "revision": status.revision,
        "head": schema_version.head(),
        "pending": status.pending,
        "needsStop": status.needs_stop,
    }


def _sentence(status: SchemaStatus) -> str:
    at, ours = f"The schema is at revision {status.revision}", f"Keyrack {__version__}"
    match status.state:
        case schema_version.SchemaState.CURRENT:
            return f"{at}, and up to date."
        case schema_version.SchemaState.EMPTY:
            return f"The database is empty. `keyrack migrate` upgrades it to revision {schema_version.head()}."
        case schema_version.SchemaState.NEWER:
            return f"{at}, that of a newer release. {ours} works with it during the upgrade."
        case schema_version.SchemaState.TOO_NEW:
            return schema_version.too_new(status)
        case schema_version.SchemaState.OLDER:
            stop = f"Stop every process of Keyrack first{schema_version.explain_workaround(status)}"
            stop = stop if status.needs_stop else "No process has to stop"
            return f"{at}. `keyrack migrate` upgrades it to {schema_version.head()}. {stop}: see docs/upgrading.md."


def _planned(status: SchemaStatus, sql: bool) -> CommandResult:
    from keyrack.db import migration_plan  # imports Alembic

    steps = migration_plan.steps(status.pending)
    lines = [_sentence(status), *(line for step in steps for line in _lines(step, sql, fresh=status.revision is None))]
    return CommandResult(_members(status) | {"steps": [_step(step, sql) for step in steps]}, "\n".join(lines))


def _lines(step: PlannedRevision, sql: bool, *, fresh: bool) -> Sequence[str]:
    """The lines of a plan for a revision; an empty database has no clients to affect."""
    lines = [f"{step.revision}  {step.title}"]
    if step.unused_since:
        lines.append(f"      contracts: removes objects unused since {step.unused_since}")
    for effect in () if fresh else step.effects:
        lines.append(f"      {'breaks' if effect.breaks else 'blocks'}: {effect.statement}: {effect.reason}")
    if sql:
        lines += ["", *(f"{statement};\n" for statement in step.statements)]
    return lines


def _step(step: PlannedRevision, sql: bool) -> dict[str, Any]:
    members: dict[str, Any] = {
        "revision": step.revision,
        "title": step.title,
        "contracts": step.unused_since is not None,
        "unusedSince": step.unused_since,
        "effects": [
            {"breaks": effect.breaks, "statement": effect.statement, "why": effect.reason} for effect in step.effects
        ],
    }
    return members | ({"sql": list(step.statements)} if sql else {})
