"""Backups of the embedded database: create, list, verify, restore and test them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, LiteralString

import typer

from keyrack.cli.cell_choice import CellName, cell_of_call, named_cell
from keyrack.cli.confirmation import ConfirmationPreview, DryRun, Yes, agree
from keyrack.cli.database_opening import embedded_server, open_address
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.options import address, moment
from keyrack.cli.output import CommandFailed, CommandResult, ListResult, show, table
from keyrack.cli.progress import progress
from keyrack.core.settings import Cell, Settings
from keyrack.db import schema_version
from keyrack.db.cell_identity import require_identity
from keyrack.db.embedded import locks
from keyrack.ops.backups import (
    base_backup,
    post_restore,
    recovery_plan,
    restore,
    restore_test,
    verification,
)
from keyrack.ops.backups.connection import connected
from keyrack.ops.backups.post_restore import PostRestoreResult
from keyrack.ops.backups.recovery_plan import format_time
from keyrack.ops.backups.repository import Backup, BackupContext, BackupError, backup_context
from keyrack.ops.backups.wal_archive import newest

app = typer.Typer()

COLUMNS = {
    "NAME": "name", "FINISHED": "finished", "GB": "gigabytes", "TIMELINE": "timeline", "VERIFIED": "verified",
    "POSTGRESQL": "postgresql", "SCHEMA": "revision",
}  # fmt: skip

HAS_IDENTITY: LiteralString = "select to_regclass('cell') is not null"  # false: `main` with an older schema

# Words for steps of a drill whose names `--json` keeps
STEPS = {"find the way": "plan", "look at the data": "check the data", "end and remove": "stop and delete"}

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of a backup, from `backup list`.")]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Restore up to this time, such as 2026-01-31T08:00:00Z. Default: all."),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        callback=address,
        help="Address of the restored server. Default: the configured one, which Keyrack's processes use.",
    ),
]
Timeline = Annotated[
    int | None,
    typer.Option("--timeline", min=1, metavar="NUMBER", help="Restore along this timeline. Default: the database's."),
]


def _run(work: Callable[[BackupContext], CommandResult], state: Any, cell: str | None, as_json: bool) -> None:
    def run() -> None:
        try:
            show(work(backup_context(_embedded(read_settings(state), cell))), as_json)
        except BackupError as error:
            raise CommandFailed(str(error)) from None

    explained(run, as_json=as_json)


def _embedded(settings: Settings, cell: str | None) -> Settings:
    """The settings of cell main, whose database may be embedded. Raises `CommandFailed` for another cell."""
    chosen = named_cell(settings, cell)
    if chosen.number > 0:
        raise CommandFailed(
            f"Cell {chosen.name} is not an embedded database. Use the backup tool of its server (docs/backups.md)."
        )
    if settings.cells:
        typer.echo(f"keyrack: This is cell {chosen.name}. Other cells have backups of their own.", err=True)
    return settings


@app.command("create")
def create(state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """Create and verify a full backup. Backups beyond KEYRACK_BACKUP_KEEP are deleted, with the WAL that they need."""

    def work(context: BackupContext) -> CommandResult:
        if not context.layout.data.exists():
            raise BackupError(f"There is no database in {context.layout.data}.")
        with progress() as tell, embedded_server(context.settings) as server:
            backup, removed = base_backup.create(context, server.dsn, tell)
        text = f"Backup {backup.name} created and verified: {backup.bytes / 1e9:.2f} GB in {context.shelf.directory}."
        if removed:
            text += f" Removed: {', '.join(removed)}."
        return CommandResult(_shown(backup) | {"removed": removed}, text)

    _run(work, state, cell, as_json)


@app.command("list")
def list_(state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """List the full backups, the recoverable times and the state of the WAL archive."""

    def work(context: BackupContext) -> CommandResult:
        backups, reached = context.shelf.backups(), recovery_plan.covers_time(context)
        archived, waiting = newest(context.shelf.wal), restore.waiting(context.layout)
        age = None if archived is None else max(0.0, (datetime.now(UTC) - archived[1]).total_seconds())
        value = {
            "directory": str(context.shelf.directory),
            "backups": [_shown(backup) for backup in backups],
            "reaches": [row | {"from": format_time(row["from"]), "to": format_time(row["to"])} for row in reached],
            "archive": {
                "segment": None if archived is None else archived[0],
                "at": None if archived is None else format_time(archived[1]),
                "age": None if age is None else round(age, 1),
                "waiting": waiting,
            },
        }
        lines = table(
            ListResult(
                [_shown(backup) | {"gigabytes": f"{backup.bytes / 1e9:.2f}"} for backup in backups],
                COLUMNS,
            )
        )  # fmt: skip
        lines += [
            f"Recoverable: {format_time(row['from'])} to {format_time(row['to'])}, timeline {row['timeline']}"
            for row in reached
        ]
        if archived is None or age is None:
            lines.append("Archive: empty")
        else:
            lines.append(f"Archive: {archived[0]} archived {age:.0f} s ago; {waiting} segments waiting")
        if backups and context.shelf.timeline() not in {backup.timeline for backup in backups}:
            lines.append("There is no full backup since the last restore. Create one: keyrack backup create")
        return CommandResult(value, "\n".join(lines))

    _run(work, state, cell, as_json)


@app.command("verify")
def verify(name: Name = None, state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """Verify all full backups, or one, and the WAL archive: read every file, and look for gaps."""

    def work(context: BackupContext) -> CommandResult:
        with progress() as tell:
            until = None
            if locks.kept(context.layout):  # the archive must reach the current time
                with embedded_server(context.settings) as server:
                    until = base_backup.until_archived(context, server.dsn)
            result = verification.verify(context, name, until, tell)
        names = [backup.name for backup in result.backups]
        value = {
            "backups": names, "timeline": result.timeline, "first": result.first, "last": result.last,
            "segments": result.segments, "upToNow": until is not None,
        }  # fmt: skip
        text = f"Verified: {', '.join(names)}, and the WAL from {result.first} to {result.last}" + (
            ", up to now." if until is not None else ". The database is not running, so newer WAL was not checked."
        )
        return CommandResult(value, text)

    _run(work, state, cell, as_json)


@app.command("restore")
def restore_backup(
    name: Name = None,
    to: To = None,
    timeline: Timeline = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing data, which are kept under another name.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Restore the database from the newest suitable backup and the WAL archive, up to a time or to the end."""
    until = moment(to)

    def work(context: BackupContext) -> CommandResult:
        if dry_run or (replace and not yes and context.layout.data.exists()):
            preview = _preview(context, name, until, timeline, replace)
            if dry_run:
                return preview.said
            agree(preview)
        with progress() as tell:
            done = restore.restore(context, name, until, timeline, replace=replace, report=tell)
        value = {
            "backup": done.plan.backup.name, "reached": format_time(done.reached), "timeline": done.timeline,
            "kept": None if done.kept is None else str(done.kept), "masterKey": done.aftermath.key is None,
            "notAdvanced": [*done.aftermath.full, *done.aftermath.full_customers],
        }  # fmt: skip
        lines = [
            f"Restored from {done.plan.backup.name} up to {format_time(done.reached)}. "
            f"The database continues in timeline {done.timeline}."
        ]
        if done.kept is not None:
            lines.append(f"The previous data are in {done.kept}. Delete them when you no longer need them.")
        lines += _settled(done.aftermath)
        lines.append("Start Keyrack, and create a full backup: keyrack backup create")
        return CommandResult(value, "\n".join(lines))

    _run(work, state, cell, as_json)


def _preview(
    context: BackupContext, name: str | None, until: datetime | None, timeline: int | None, replace: bool
) -> ConfirmationPreview:
    """The result of a restore, and the data that it replaces. Raises `BackupError`."""
    there = replace and context.layout.data.exists()
    chosen = recovery_plan.plan(context, name, until, timeline, context.layout.data / "pg_wal" if there else None)
    reaches = "the end of the WAL archive" if until is None else format_time(until)
    then = "The existing data are kept under another name." if there else ""
    data = {f"{context.layout.data} to be replaced": 1} if there else {}
    text = f"restore {chosen.backup.name} and the WAL after it, up to {reaches}"
    text += f", and replace {context.layout.data}" if there else ""
    return ConfirmationPreview(text, data, then, shows_counts=False)


@app.command("settle")
def settle(url: Url = None, state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """Advance ids and event numbers, and sign everyone out, after a restore by another tool such as pgBackRest.

    Start the restored server on a port that no process of Keyrack uses, and name it with --url: no client may be served
    before. `backup restore` does all of this itself.
    """

    async def work() -> PostRestoreResult:
        chosen = await cell_of_call(read_settings(state), cell, {})
        if url is not None:
            chosen = replace(chosen, settings=chosen.settings.at_address(url, "--url"))
        # A restore to a time before an upgrade has the older schema. Processes may serve it only when it is settled
        async with open_address(chosen.settings, older=True) as dsn:
            await _check_restored(chosen, dsn)
            return await post_restore.apply_post_restore(chosen.settings, dsn)

    def run() -> None:
        done = asyncio.run(work())
        value = {"masterKey": done.key is None, "notAdvanced": [*done.full, *done.full_customers]}
        show(CommandResult(value, "\n".join(_settled(done))), as_json)

    explained(run)


async def _check_restored(cell: Cell, dsn: str) -> None:
    """Warn of processes that serve the restored data already. Raises `WrongCell` if the database is another cell."""
    async with connected(cell.settings, dsn) as database:
        if cell.is_one_of_several and await database.fetchval(HAS_IDENTITY):
            await require_identity(database, cell)
        running = [row["name"] for row in await database.fetch(schema_version.RUNNING)]
    if running:
        typer.echo(
            f"keyrack: The restored database is in use already: {', '.join(running)}. Ids may have been given twice. "
            "Next time, start the restored server on another port, and use --url (docs/backups.md, After a restore).",
            err=True,
        )


@app.command("drill")
def drill(
    name: Name = None,
    to: To = None,
    timeline: Timeline = None,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Test a restore in a temporary directory: count the rows, and measure the time."""
    until = moment(to)

    def work(context: BackupContext) -> CommandResult:
        with progress() as tell:
            done = restore_test.drill(context, name, until, timeline, tell)
        value = {
            "backup": done.backup, "reached": format_time(done.reached), "revision": done.revision,
            "tables": dict(done.tables),
            "seconds": {step: round(seconds, 3) for step, seconds in done.steps}, "masterKey": done.key is None,
        }  # fmt: skip
        rows = table(
            ListResult([{"name": n, "rows": count} for n, count in done.tables], {"TABLE": "name", "ROWS": "rows"})
        )
        steps = [{"step": STEPS.get(step, step), "seconds": f"{seconds:.1f}"} for step, seconds in done.steps]
        rows += ["", *table(ListResult(steps, {"STEP": "step", "SECONDS": "seconds"})), ""]
        rows.append(f"{done.backup} can be restored up to {format_time(done.reached)}.")
        if done.key is not None:
            raise CommandFailed(f"The data can be restored, but not their secrets. {done.key}", rows, value)
        return CommandResult(value, "\n".join(rows))

    _run(work, state, cell, as_json)


def _settled(done: PostRestoreResult) -> list[str]:
    """The facts that the operator needs after a restore."""
    lines = [
        done.key
        or "The master key of this node decrypts the secrets of the restored database. No backup contains that key.",
        "Ids and event numbers were advanced. Managers, drivers and machine clients must sign in again. Revocations, "
        "disabled accounts and erasures after the restored time are lost: repeat them (docs/backups.md, After a "
        "restore).",
    ]
    if done.full:
        lines.append(f"Too close to the maximum to be advanced: {', '.join(done.full)}.")
    if done.full_customers:
        customers = ", ".join(map(str, done.full_customers))
        lines.append(f"The event numbers of these customers are too close to the maximum to be advanced: {customers}.")
    return lines


def _shown(backup: Backup) -> dict[str, Any]:
    return {
        "name": backup.name, "started": format_time(backup.started), "finished": format_time(backup.finished),
        "verified": format_time(backup.verified),
        "bytes": backup.bytes, "timeline": backup.timeline, "postgresql": backup.version, "keyrack": backup.keyrack,
        "revision": backup.revision,
    }  # fmt: skip
