"""The command `migrate`: it upgrades the schema, or shows the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyrack import __version__
from keyrack.cli.cell_choice import UNUSABLE, CellName, named_cell, names
from keyrack.cli.commands.run import running_database
from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_opening import embedded_server
from keyrack.cli.database_session import Json, State, explain, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.core import log_config
from keyrack.core.settings import Cell, Settings
from keyrack.db import schema_version
from keyrack.db.schema_version import SchemaStatus
from keyrack.ops.cells.connection import require_numbered

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
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Upgrade the database schema. Concurrent calls wait for one another.

    With several cells, cell main is first, and a failure ends the upgrade. --cell upgrades one cell.
    """

    def run() -> None:
        settings = read_settings(state)
        log_config.configure(settings.log_level)
        if sql and not plan:
            raise typer.BadParameter("needs --plan", param_hint="--sql")
        cells = settings.all_cells if cell is None else (named_cell(settings, cell),)
        if not check and not plan:
            check_beginning(cells[0].settings, "migrate", named=state is not None)
            warn_of_names()
            if settings.cells:
                show(_migrate_all(cells), as_json)
            else:
                show(_migrate(settings), as_json)
            return
        warn_of_names()

        def describe(status: SchemaStatus) -> CommandResult:
            return _planned(status, sql) if plan else _status_result(status)

        if settings.cells:
            _show_all(cells, describe, with_status=check, as_json=as_json)
            return
        status = look(settings)
        show(describe(status), as_json)
        if check:
            raise typer.Exit(STATUS[status.state])

    explained(run, as_json=as_json)


def _migrate(settings: Settings) -> CommandResult:
    with running_database(settings) as dsn:
        revision = asyncio.run(schema_version.read_schema_state(dsn)).revision
    return CommandResult({"revision": revision}, f"The schema is at revision {revision}.")


def _migrate_all(cells: Sequence[Cell]) -> CommandResult:
    """Migrate one cell after the other. Raises `CommandFailed` at the first failure, which has the cells before it."""
    done: list[dict[str, Any]] = []
    for position, cell in enumerate(cells):
        typer.echo(f"keyrack: Migrating cell {cell.name}.", err=True)
        try:
            _require_cell(cell)
            done.append({"cell": cell.name, **_migrate(cell.alone).value})
        except Exception as error:
            raise CommandFailed(
                f"Cell {cell.name}: {explain(error)} Migrated: {names(cells[:position]) or 'none'}. "
                f"Not migrated: {names(cells[position:])}.",
                value={"cells": done, "failed": cell.name},
            ) from error
    lines = [f"Cell {row['cell']}: the schema is at revision {row['revision']}." for row in done]
    return CommandResult({"cells": done}, "\n".join(lines))


def _require_cell(cell: Cell) -> None:
    """Check that the database is the cell, before anything is migrated. Raises `CommandFailed`, `WrongCell`."""
    if cell.number == 0:
        return
    if look(cell.settings).state is schema_version.SchemaState.EMPTY:
        raise CommandFailed(f"The database is empty. Run `keyrack cells add {cell.name}`.")
    asyncio.run(require_numbered(cell))


def _show_all(
    cells: Sequence[Cell], describe: Callable[[SchemaStatus], CommandResult], *, with_status: bool, as_json: bool
) -> None:
    """Print the result for each cell, and exit with the worst status. A cell that cannot be read is a failure."""
    values: list[dict[str, Any]] = []
    lines: list[str] = []
    worst = 0
    is_readable = True
    for cell in cells:
        try:
            status = look(cell.settings)
        except UNUSABLE as error:
            is_readable = False
            values.append({"cell": cell.name, "error": explain(error)})
            lines.append(f"Cell {cell.name}: {explain(error)}")
        else:
            result = describe(status)
            worst = max(worst, STATUS[status.state])
            values.append({"cell": cell.name, **result.value})
            lines.append(f"Cell {cell.name}: {result.text}")
    show(CommandResult({"cells": values}, "\n".join(lines)), as_json)
    if not is_readable:
        raise typer.Exit(1)
    if with_status:
        raise typer.Exit(worst)


def look(settings: Settings) -> SchemaStatus:
    """The schema compared with this release. A missing embedded database counts as empty, and is not created.

    Raises `SchemaError` if a privilege is missing.
    """
    if settings.database_url is not None:
        return asyncio.run(schema_version.read_schema_state(settings.direct_address(settings.database_url), settings))
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
