"""Cells: databases with customers of their own. List them, add one, and check that they fit together."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Annotated, Any

import asyncpg
import typer
from pydantic import ValidationError

from keyrack import __version__
from keyrack.cli.cell_choice import UNUSABLE
from keyrack.cli.commands import cell_moves
from keyrack.cli.database_opening import naming_setting, open_database, running_address
from keyrack.cli.database_session import INCOMPLETE, Json, State, explain, explained
from keyrack.cli.environment import configured_in, read_settings
from keyrack.cli.output import CommandFailed, CommandResult, ListResult, show
from keyrack.cli.screen import WORDS, Screen
from keyrack.core import log_config
from keyrack.core.cell_ids import MOST_CELLS
from keyrack.core.settings import Cell, CellSettings, Settings
from keyrack.db.connection import UNREACHABLE, Connection
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.ops.cells import addition, agreement
from keyrack.ops.cells.addition import CellNotAdded
from keyrack.ops.cells.agreement import ALL
from keyrack.ops.cells.connection import reading
from keyrack.ops.cells.overview import CellOverview, overview, shown_address
from keyrack.ops.doctor.result import failure
from keyrack.ops.monitoring.findings import Finding, Severity, verdict

app = typer.Typer()

COLUMNS = {
    "NUMBER": "number", "NAME": "name", "ADDRESS": "address", "SCHEMA": "revision", "CUSTOMERS": "customers",
    "BYTES": "bytes", "LAG": "lagSeconds", "AWAY": "away",
}  # fmt: skip
MEMBERS = ("name", "number", "url", "direct_url", "read_url")
AWAY = "Its customers get 503 until the database answers. Check its server, and its address in [[cells]]."

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the cell: letters a-z, digits and -.")]
Number = Annotated[
    int | None,
    typer.Option(
        "--number",
        min=1,
        max=MOST_CELLS - 1,
        help="A number that no cell ever had. Default: the smallest whose ids no cell has.",
    ),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of an empty database. Default: the configured one.")
]
DirectUrl = Annotated[
    str | None,
    typer.Option("--direct-url", metavar="URL", help="The address without PgBouncer, if --url has it."),
]
ReadUrl = Annotated[str | None, typer.Option("--read-url", metavar="URL", help="Address of its read replicas.")]


@app.command("list")
def list_(state: State = None, as_json: Json = False) -> None:
    """List the cells with their sizes. A cell that does not answer is listed as away.

    Exit status 0: all answer, 1: a cell is away.
    """

    async def overviews() -> list[CellOverview]:
        return [await _overview(cell) for cell in read_settings(state).all_cells]

    def run() -> None:
        rows = asyncio.run(overviews())
        show(ListResult([_members(row) for row in rows], COLUMNS), as_json)
        if any(row.away for row in rows):
            raise CommandFailed(INCOMPLETE)

    explained(run, as_json=as_json)


async def _overview(cell: Cell) -> CellOverview:
    try:
        async with running_address(cell.settings) as dsn:
            with naming_setting(cell.settings):
                return await overview(cell, dsn)
    except UNUSABLE as error:
        return CellOverview(cell.number, cell.name, shown_address(cell), away=explain(error))


def _members(row: CellOverview) -> dict[str, Any]:
    members = asdict(row)
    return {"lagSeconds" if name == "lag" else name: value for name, value in members.items()}


@app.command("add")
def add(
    name: Name,
    url: Url = None,
    number: Number = None,
    direct_url: DirectUrl = None,
    read_url: ReadUrl = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Make an empty database a cell, and print its configuration. It can be repeated.

    The lines for the configuration file alone go to standard output. Every process needs them, and has to be restarted.
    """
    given = {"url": url, "direct_url": direct_url, "read_url": read_url}

    def run() -> None:
        settings = read_settings(state)
        log_config.configure(settings.log_level)  # of the migration, on standard error
        table, is_new = asyncio.run(_added(settings, name, number, given))
        is_configured = table in settings.cells
        lines = "" if is_configured else _toml(table)
        work = "was made" if is_new else "is unchanged"
        said = f"keyrack: Cell {name}, number {table.number}, {work}."
        if is_configured:
            typer.echo(f"{said} It is configured already.", err=True)
        else:
            typer.echo(f"{said} Add these lines to {configured_in('cells')} of every node, and restart it.", err=True)
        if as_json:
            value = {"cell": name, "number": table.number, "isNew": is_new, "isConfigured": is_configured}
            show(CommandResult({**value, "configuration": lines or None}, ""), as_json)
        elif lines:
            typer.echo(lines, nl=False)

    explained(run, as_json=as_json)


async def _added(
    settings: Settings, name: str, number: int | None, given: dict[str, str | None]
) -> tuple[CellSettings, bool]:
    """The table of the added cell, and whether it is new.

    Raises `CommandFailed`.
    """
    main = settings.all_cells[0]
    async with open_database(main) as database:
        await open_vault(database, settings)  # the new cell gets this master key as well
        try:
            table = _configured(settings, name, number, given) or await _proposed(
                settings, name, number, given, database
            )
            cell = Cell(table.number, table.name, settings.for_cell(table))
            return table, await addition.add(cell, database)
        except CellNotAdded as error:
            raise CommandFailed(str(error)) from None


def _configured(settings: Settings, name: str, number: int | None, given: dict[str, str | None]) -> CellSettings | None:
    """The cell of the settings with this name. Raises `CommandFailed` if the options say something else."""
    for table in settings.cells:
        if table.name == name:
            members = {"number": number, **given}
            if wrong := [key for key, value in members.items() if value not in (None, getattr(table, key))]:
                raise CommandFailed(
                    f"Cell {name} is configured with another {', '.join(wrong)}. Leave the options out, or use another "
                    "name."
                )
            return table
    if given["url"] is None:
        raise CommandFailed(f"Cell {name} is not configured. Add --url with the address of an empty database.")
    return None


async def _proposed(
    settings: Settings, name: str, number: int | None, given: dict[str, str | None], main: Any
) -> CellSettings:
    """The table of a new cell.

    Its number is that of its database, or the smallest free one.

    Raises `CommandFailed`.
    """
    used = {cell.number for cell in settings.cells} | await _numbers_with_ids(settings)
    free = next((candidate for candidate in range(1, MOST_CELLS) if candidate not in used), None)
    if free is None:
        raise CommandFailed("No number is left for another cell.")
    table = _checked(settings, name, number or free, given)
    identity = (await addition.inspect(settings.for_cell(table), main)).identity
    if identity is not None and identity.number > 0:
        if number is None and identity.name != name:
            raise CommandFailed(f"The database is cell {identity.name} already. Use this name, or an empty database.")
        return table if number is not None else _checked(settings, name, identity.number, given)
    if number in used:
        raise CommandFailed(
            f"A cell had number {number}, and its ids are in use. Leave --number out, or use a number that no cell had."
        )
    return table


async def _numbers_with_ids(settings: Settings) -> set[int]:
    """The numbers whose ids any cell has, also those of removed cells. Raises `CommandFailed` if a cell is away."""
    found = set[int]()
    for cell in settings.all_cells:
        try:
            async with open_database(cell) as database:
                found |= await addition.numbers_with_ids(database)
        except UNUSABLE as error:
            raise CommandFailed(
                f"Cell {cell.name} must answer, because it can have ids of a removed cell: {explain(error)}"
            ) from None
    return found


def _checked(settings: Settings, name: str, number: int, given: dict[str, str | None]) -> CellSettings:
    """The table, valid beside the cells of the settings. Raises `CommandFailed`."""
    members = {"name": name, "number": number} | {key: value for key, value in given.items() if value is not None}
    try:
        known = {"state": settings.state, "database_url": settings.database_url}
        return Settings.model_validate({**known, "cells": [*settings.cells, members]}).cells[-1]
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise CommandFailed(f"The cell is not valid: {reason}.") from None


def _toml(table: CellSettings) -> str:
    """The table of the configuration file. A basic string of TOML is written as in JSON.

    It begins with an empty line: the last line of the file may have no end.
    """
    members = [(member, getattr(table, member)) for member in MEMBERS]
    lines = [f"{member} = {json.dumps(value)}\n" for member, value in members if value is not None]
    return "".join(["\n[[cells]]\n", *lines])


@app.command("check")
def check(state: State = None, as_json: Json = False) -> None:
    """Check that all cells answer, fit this release and each other. Nothing is changed.

    Exit status 0: no fault, 1: a fault.
    """

    def run() -> None:
        findings = asyncio.run(_examined(read_settings(state)))
        flat = [(cell, finding) for cell, rows in findings.items() for finding in rows]
        level = verdict([finding for _, finding in flat if finding.level is not Severity.UNKNOWN])
        if as_json:
            show(CommandResult({"verdict": WORDS[level], "keyrack": __version__, "checks": [
                {"cell": None if cell == ALL else cell, "result": WORDS[finding.level], "check": finding.code,
                 "text": finding.text, "action": finding.action} for cell, finding in flat
            ]}, ""), as_json)  # fmt: skip
        else:
            typer.echo("\n".join(_lines(findings, level)))
        raise typer.Exit(int(level >= Severity.CRITICAL))

    explained(run, as_json=as_json)


async def _examined(settings: Settings) -> dict[str, list[Finding]]:
    """The findings by cell, and those of all cells. A cell that does not answer does not end the others' checks."""
    findings: dict[str, list[Finding]] = {}
    connected: dict[str, tuple[Cell, Connection]] = {}
    async with AsyncExitStack() as stack:
        for cell in settings.all_cells:
            try:
                dsn = await stack.enter_async_context(running_address(cell.settings))
                with naming_setting(cell.settings):
                    connected[cell.name] = cell, await stack.enter_async_context(reading(cell.settings, dsn))
            except UNUSABLE as error:
                findings[cell.name] = [failure("away", explain(error), AWAY)]
        try:
            findings |= await agreement.examine_all(connected, list(findings))
        except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
            findings[ALL] = [failure("away", explain(error), "Check again.")]
    order = [*(cell.name for cell in settings.all_cells), ALL]
    return {name: findings[name] for name in order if name in findings}


def _lines(findings: dict[str, list[Finding]], level: Severity) -> list[str]:
    screen = Screen()
    levels = [finding.level for rows in findings.values() for finding in rows]
    bad = sum(level in (Severity.WARNING, Severity.CRITICAL) for level in levels)
    lines = [screen.verdict(level, f"{len(findings) - (ALL in findings)} cells, {bad or 'no'} findings.")]
    for name, rows in findings.items():
        lines += ["", screen.heading("All cells" if name == ALL else f"Cell {name}")]
        for finding in sorted(rows, key=lambda finding: -finding.level):
            lines += screen.finding(finding.level, finding.text, finding.action)
    return lines


app.add_typer(cell_moves.app)  # without a name, its commands are commands of `cells`
