"""The command `revoke` of API keys, SDK keys and device keys.

A key can be in several cells. A move of a customer copies the API keys, and a restored cell can have the keys of a
customer that has moved since. A key is revoked only when no cell accepts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, LiteralString

import typer

from keyrack.cli import name_lookup
from keyrack.cli.cell_choice import UNUSABLE, CellName, cell_of_call, listed
from keyrack.cli.database_opening import open_database
from keyrack.cli.database_session import State, explain, explained, tell
from keyrack.cli.environment import read_settings
from keyrack.cli.name_lookup import Reference
from keyrack.cli.options import which
from keyrack.cli.output import CommandFailed, CommandResult, Json, show
from keyrack.core.settings import Cell, Settings
from keyrack.db.change_notifier import EVERYBODY, NOTHING

FIND: LiteralString = "select hash, revoked_at from {table} where {table}_id = $1"
REVOKE: LiteralString = """
update {table} set revoked_at = now() where hash = $1 and revoked_at is null returning {table}_id
"""


@dataclass(frozen=True, slots=True)
class _RevokedKey:
    """A key, and the cells that have revoked it now."""

    noun: str
    id: int
    revoked_before: datetime | None
    has_cells: bool  # there are several
    chosen_cell: str | None  # the one that the caller named
    cells: list[Cell] = field(default_factory=list[Cell])
    failures: dict[str, str] = field(default_factory=dict[str, str])  # the error of each other cell


def revocable(app: typer.Typer, table: LiteralString, noun: str) -> None:
    """Add the command `revoke` for the keys in `table`. Messages call them `noun`."""

    def revoke(id: Any, state: State = None, cell: CellName = None, as_json: Json = False) -> None:
        """Revoke a key; it is rejected at once. With several cells, its copies in all of them are revoked."""

        def run() -> None:
            settings = read_settings(state)
            show(_result(asyncio.run(_revoke(settings, cell, table, noun, id))), as_json)

        explained(run, as_json=as_json)

    revoke.__annotations__["id"] = Annotated[int, which(table)]
    app.command("revoke")(revoke)


async def _revoke(
    settings: Settings, cell_name: str | None, table: LiteralString, noun: str, wanted: Reference
) -> _RevokedKey:
    """Revoke a key in all cells. Its id is that in the cell of the call. Raises `CommandFailed`."""
    find: LiteralString = FIND.replace("{table}", table)
    async with open_database(await cell_of_call(settings, cell_name, {})) as database:
        id = (await name_lookup.resolved(database, {"id": wanted}))["id"]
        row = await database.fetchrow(find, id)
    if row is None:
        raise CommandFailed(f"There is no {noun} {id}.")
    key = _RevokedKey(noun, id, row["revoked_at"], bool(settings.cells), cell_name)
    for cell in settings.all_cells:
        await _revoke_in(cell, table, row["hash"], key)
    return key


async def _revoke_in(cell: Cell, table: LiteralString, hash: bytes, key: _RevokedKey) -> None:
    """Revoke the copy of the key in a cell. An error of one of several cells does not end the command."""
    revoke: LiteralString = REVOKE.replace("{table}", table)
    try:
        async with open_database(cell) as database:
            if await database.fetchval(revoke, hash):
                await tell(database, EVERYBODY, NOTHING)
                key.cells.append(cell)
    except UNUSABLE as error:
        if not key.has_cells:
            raise
        key.failures[cell.name] = explain(error)


def _result(key: _RevokedKey) -> CommandResult:
    """The result of the command. Raises `CommandFailed` if a cell failed, or if nothing was to be revoked.

    If the caller has named a cell, another one that fails is only noted: that cell may be away for days.
    """
    value: Mapping[str, Any] = {"id": key.id}
    if key.has_cells:
        value = {**value, "cells": [cell.name for cell in key.cells]}
    place = f" in {listed(key.cells)}" if key.has_cells and key.cells else ""
    if key.failures and key.chosen_cell is not None and key.chosen_cell not in key.failures:
        value = {**value, "failed": list(key.failures)}
        typer.echo(
            f"keyrack: {key.noun} {key.id} was not looked for in {', '.join(key.failures)}, which did not answer. If a "
            "move has copied it, run the command again when the cell answers.",
            err=True,
        )
    elif key.failures:
        done = f"It is revoked{place}." if place else "The other cells had nothing to revoke."
        raise CommandFailed(
            f"{key.noun} {key.id} was not revoked in {', '.join(key.failures)}, and may be valid there. {done} Run the "
            "command again when the cell answers.",
            list(key.failures.values()),
            {**value, "failed": list(key.failures)},
        )
    if not key.cells:
        at = "" if key.revoked_before is None else f" at {key.revoked_before:%Y-%m-%d %H:%M} UTC"
        raise CommandFailed(f"{key.noun} {key.id} was already revoked{at}.")
    return CommandResult(value, f"{key.noun} {key.id} revoked{place}.")
