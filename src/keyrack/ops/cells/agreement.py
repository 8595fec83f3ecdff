"""Checks of each cell, and of rows that two cells share."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from keyrack.core.settings import Cell
from keyrack.db import schema_version
from keyrack.db.connection import Connection
from keyrack.db.encryption.bootstrap import check_master_key
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.db.schema_version import SchemaState
from keyrack.ops.cells.move_states import KnownMove, Standing, read_moves
from keyrack.ops.cells.preflight import IS_SUPERUSER, WAL_LEVEL
from keyrack.ops.doctor.cell_range import examine_identity
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding, Severity

CUSTOMERS = "customers"
ALL = "all"  # subject of the checks that compare cells
MOST = 20  # findings of one kind
AT_ONCE = 128  # rows that are read at once from each cell

EXTENSIONS: LiteralString = """
select array(select extname::text from pg_extension where extname in ('pg_trgm', 'btree_gin', 'btree_gist') order by 1)
"""
# All cursors of a transaction need the same types. Python orders text in the same way as the collation
SORTED: LiteralString = """
select key::text collate "C" as key, value::text as value from ({rows}) r order by 1
"""


async def examine_cell(connection: Connection, cell: Cell) -> list[Finding]:
    """Check one cell: schema, number, range of ids, master key and wal_level."""
    status = await schema_version.standing(connection)
    if status.state is not SchemaState.CURRENT:
        text = f"The schema is at revision {status.revision or 'none'}, but this release has {schema_version.head()}."
        remedy = (
            f"Run `keyrack migrate --cell {cell.name}`." if status.revision else f"Run `keyrack cells add {cell.name}`."
        )
        return [failure("schema", text, remedy)]
    lines = [ok("schema", f"the schema is at revision {status.revision}"), *await examine_identity(connection, cell)]
    try:
        await check_master_key(connection, cell.settings)
        lines.append(ok("secrets", "this node's master key decrypts the database's secrets"))
    except MasterKeyError as error:
        lines.append(failure("secrets", str(error), "All cells need the same master key (docs/secrets.md)."))
    return [*lines, *await _examine_movability(connection)]


async def _examine_movability(connection: Connection) -> list[Finding]:
    """Check that customers can be moved. The role is a superuser only during moves, so another one is no fault."""
    if (level := await connection.fetchval(WAL_LEVEL)) != "logical":
        text = f"wal_level is {level}, so no customer can be moved out of this cell."
        return [warning("wal-level", text, "Before a move, set wal_level to logical, and restart PostgreSQL.")]
    if not await connection.fetchval(IS_SUPERUSER):
        return [ok("wal-level", "customers can be moved after `alter role ... superuser`: the role is no superuser")]
    return [ok("wal-level", "customers can be moved out of this cell")]


def _nothing_found(code: str, text: str, unchecked: Sequence[str]) -> Finding:
    """The result of a check that compares cells and has found nothing.

    `unchecked` has the reason for each cell that was not compared. With any, the text would not be proven.
    """
    if unchecked:
        reasons = " and ".join(unchecked)
        return Finding(Severity.UNKNOWN, code, f"{code.replace('-', ' ')}: not checked, because {reasons}", "")
    return ok(code, text)


def examine_extensions(extensions: Mapping[str, Sequence[str]], unchecked: Sequence[str] = ()) -> list[Finding]:
    """Check that each cell has the extensions that another one has. `extensions` has them by cell."""
    of_all = {extension for names in extensions.values() for extension in names}
    lines = [
        warning(
            "extensions", f"Cell {cell} has no extension {', '.join(missing)}, which another cell has.",
            "Create it as a superuser; `keyrack doctor` names the statements.",
        )
        for cell, names in extensions.items()
        if (missing := sorted(of_all.difference(names)))
    ]  # fmt: skip
    return lines or [_nothing_found("extensions", "all cells have the same extensions", unchecked)]


@dataclass(frozen=True, slots=True)
class SharedKey:
    """Rows whose key two cells may not have."""

    code: str
    rows: LiteralString  # `key` and `value`
    text: str
    action: str
    is_value_shared: bool = False  # the same key is right if its value is the same


SHARED_KEYS = (
    SharedKey(
        CUSTOMERS,
        "select customer_id as key, name as value from customer",
        "Customer {key} is in {cells}.",
        "A cell was restored to a time before a move. Remove the customer from that cell with `keyrack customer remove "
        "{key} --everything --cell NAME`.",
    ),
    SharedKey(
        "accounts",
        "select manager_id as key, null as value from manager union all select client_id, null from client",
        "The id {key} is that of a manager or client in {cells}.",
        "Continue the move of its customer, if one has begun. Otherwise run `keyrack manager remove {key} --cell NAME` "
        "or `keyrack client remove {key} --cell NAME` for the wrong cell.",
    ),
    SharedKey(
        "user-names",
        """select address_form as key, username as value from manager
        where address_form is not null and not has_address_conflict""",
        "The user name {value} is that of managers in {cells}.",
        "Only one of them can log in. Run `keyrack manager change ID --username NAME --cell NAME` for the other.",
    ),
    SharedKey(
        "persons", "select user_id as key, address_form as value from person",
        "The users with the id {key} in {cells} have different addresses.",
        "If it stays so, run `keyrack user change {key} --address ADDRESS` in the cell with the old address.",
        is_value_shared=True,
    ),
    SharedKey(
        "addresses",
        """select address_form as key, user_id as value from person
        where address_form is not null and not has_address_conflict""",
        "The address {key} is that of several users in {cells}.",
        "Run `keyrack user change ID --address ADDRESS --cell NAME` for one of them.",
        is_value_shared=True,
    ),
)  # fmt: skip


def examine_moves(moves: Mapping[int, KnownMove], unchecked: Sequence[str] = ()) -> list[Finding]:
    """Find moves that a restore of one cell has interrupted. A customer in two cells is found as a shared key."""
    lines: list[Finding] = []
    for move in moves.values():
        match move.standing:
            case Standing.LOST_IN_TARGET | Standing.LOST | Standing.OLD_TARGET:
                lines.append(failure("moves", move.problem, move.remedy))
            case Standing.HALF_KNOWN | Standing.REMOVED | Standing.GONE:
                lines.append(warning("moves", move.problem, move.remedy))
            case Standing.AFTER_SWITCH if move.source_state != "switched":
                lines.append(warning("moves", move.problem, move.remedy))
            case _:
                pass
    return lines[:MOST] or [_nothing_found("moves", "no restore has interrupted a move of a customer", unchecked)]


async def examine_shared_keys(
    connections: Mapping[str, Connection], moves: Mapping[int, KnownMove], unchecked: Sequence[str] = ()
) -> list[Finding]:
    """Find rows that two cells have and may not have.

    `connections` has an open transaction by cell, and `moves` the open moves by customer.
    """
    return [line for shared in SHARED_KEYS for line in await _doubles(connections, shared, moves, unchecked)]


async def _doubles(
    connections: Mapping[str, Connection], shared: SharedKey, moves: Mapping[int, KnownMove], unchecked: Sequence[str]
) -> list[Finding]:
    lines: list[Finding] = []
    rows: LiteralString = SORTED.replace("{rows}", shared.rows)
    streams = {cell: _stream(connection, rows) for cell, connection in connections.items()}
    async for key, values in common_keys(streams):
        if shared.is_value_shared and len(set(values.values())) == 1:
            continue
        told = {"key": key, "value": next(iter(values.values())), "cells": f"the cells {', '.join(values)}"}
        move = moves.get(int(key)) if shared.code == CUSTOMERS else None
        has_move = move is not None and set(values) == {move.source, move.target}
        action = move.remedy if move and has_move else shared.action.format(**told)
        lines.append(failure(shared.code, shared.text.format(**told), action))
        if len(lines) == MOST:
            break
    for connection in connections.values():
        await connection.execute("close all")
    text = f"no two cells have the same {shared.code.replace('-', ' ')}"
    return lines or [_nothing_found(shared.code, text, unchecked)]


async def _stream(connection: Connection, rows: LiteralString) -> AsyncGenerator[tuple[Any, Any]]:
    await connection.declare(rows)
    while batch := await connection.fetch_batch(AT_ONCE):
        for row in batch:
            yield row["key"], row["value"]


async def common_keys(
    streams: Mapping[str, AsyncIterator[tuple[Any, Any]]],
) -> AsyncGenerator[tuple[Any, dict[str, Any]]]:
    """Yield each common key of sorted streams, with its values.

    It holds one row of each stream, however many there are.
    """
    heads: list[tuple[Any, int, Any]] = []
    names = list(streams)

    async def advance(position: int) -> None:
        if (row := await anext(streams[names[position]], None)) is not None:
            heapq.heappush(heads, (row[0], position, row[1]))

    for position in range(len(names)):
        await advance(position)
    while heads:
        key, values = heads[0][0], dict[str, Any]()
        while heads and heads[0][0] == key:
            _, position, value = heapq.heappop(heads)
            values[names[position]] = value
            await advance(position)
        if len(values) > 1:
            yield key, values


async def examine_all(
    connected: Mapping[str, tuple[Cell, Connection]], away: Sequence[str] = ()
) -> dict[str, list[Finding]]:
    """The findings by cell, and those of all together under `ALL`.

    `connected` has each cell with a connection of `reading`, and `away` the names of the other cells. Raises the errors
    of asyncpg.
    """
    findings: dict[str, list[Finding]] = {}
    usable: dict[str, Connection] = {}
    extensions: dict[str, Sequence[str]] = {}
    for name, (cell, connection) in connected.items():
        findings[name] = await examine_cell(connection, cell)
        extensions[name] = await connection.fetchval(EXTENSIONS)
        if findings[name][0].level == 0:  # its schema is that of this release
            usable[name] = connection
    no_answers = [f"cell {name} is away" for name in away]
    unchecked = no_answers + [f"cell {name} has another schema" for name in connected if name not in usable]
    moves = await read_moves(usable)
    findings[ALL] = [
        *examine_extensions(extensions, no_answers),
        *examine_moves(moves, unchecked),
        *await examine_shared_keys(usable, moves, unchecked),
    ]
    return findings
