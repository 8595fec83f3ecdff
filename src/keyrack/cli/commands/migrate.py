"""The command that brings the schema up to date, or tells what there is to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyrack import __version__
from keyrack.cli.commands.run import running_database
from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_session import Json, State, embedded_server, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.cli.output import CommandResult, show
from keyrack.core import log_config
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.schema_version import SchemaStatus

if TYPE_CHECKING:
    from keyrack.db.migration_plan import PlannedRevision

app = typer.Typer()

# The exit status of --check; 1 and 2 are those of failures
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
        typer.Option("--check", help="Change nothing. Status 0: nothing to do, 3: something, 4, 5: it is newer."),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Change nothing, and tell what would be done.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Tell the statements, too; with --plan.")] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Bring the database's schema up to date. Several at once wait for one another."""

    def run() -> None:
        settings = read_settings(state)
        log_config.configure(settings.log_level)
        if sql and not plan:
            raise typer.BadParameter("only with --plan", param_hint="--sql")
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
    """How the database's schema stands to this release; an embedded database that is not there yet is not made.

    Raises `SchemaError`: a right is missing.
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
    at, ours = f"The schema is at revision {status.revision}", f"this Keyrack, {__version__}"
    match status.state:
        case schema_version.SchemaState.CURRENT:
            return f"{at}: nothing is to be done."
        case schema_version.SchemaState.EMPTY:
            return f"The database is still empty; `keyrack migrate` brings it to revision {schema_version.head()}."
        case schema_version.SchemaState.NEWER:
            return f"{at}, that of a newer release; {ours}, works with it as long as the newer one takes over."
        case schema_version.SchemaState.TOO_NEW:
            return schema_version.too_new(status)
        case schema_version.SchemaState.OLDER:
            stop = f"Stop every process of Keyrack first{schema_version.explain_workaround(status)}"
            stop = stop if status.needs_stop else "Nothing has to stop for it"
            return f"{at}; `keyrack migrate` brings it to {schema_version.head()}. {stop}: see docs/upgrading.md."


def _planned(status: SchemaStatus, sql: bool) -> CommandResult:
    from keyrack.db import migration_plan  # with it comes Alembic

    steps = migration_plan.steps(status.pending)
    lines = [_sentence(status), *(line for step in steps for line in _lines(step, sql, fresh=status.revision is None))]
    return CommandResult(_members(status) | {"steps": [_step(step, sql) for step in steps]}, "\n".join(lines))


def _lines(step: PlannedRevision, sql: bool, *, fresh: bool) -> Sequence[str]:
    """What a plan says of a revision; on an empty database nobody is held up."""
    lines = [f"{step.revision}  {step.title}"]
    if step.unused_since:
        lines.append(f"      contracts: what it takes away is not used since {step.unused_since}")
    for effect in () if fresh else step.effects:
        lines.append(f"      {'breaks' if effect.breaks else 'holds up'}: {effect.statement}: {effect.reason}")
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
