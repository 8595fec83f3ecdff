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
from keyrack.ops.doctor.cell_range import examine_identity
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding

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
WAL_LEVEL: LiteralString = "select current_setting('wal_level')"


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
    if (level := await connection.fetchval(WAL_LEVEL)) == "logical":
        lines.append(ok("wal-level", "customers can be moved out of this cell"))
    else:
        text = f"wal_level is {level}, so no customer can be moved out of this cell."
        lines.append(warning("wal-level", text, "Before a move, set wal_level to logical, and restart PostgreSQL."))
    return lines


def examine_extensions(extensions: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Check that each cell has the extensions that another one has. The argument has them by cell."""
    of_all = {extension for names in extensions.values() for extension in names}
    lines = [
        warning(
            "extensions", f"Cell {cell} has no extension {', '.join(missing)}, which another cell has.",
            "Create it as a superuser; `keyrack doctor` names the statements.",
        )
        for cell, names in extensions.items()
        if (missing := sorted(of_all.difference(names)))
    ]  # fmt: skip
    return lines or [ok("extensions", "all cells have the same extensions")]


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
        "customers",
        "select customer_id as key, name as value from customer",
        "Customer {key} is in {cells}.",
        "Continue its move with `keyrack cells move-customer`, if one has begun. Otherwise a cell was restored to a "
        "time before a move: run `keyrack customer remove --everything {key} --cell NAME` with the name of that cell "
        "(docs/cell-moves.md).",
    ),
    SharedKey(
        "accounts",
        "select manager_id as key, null as value from manager union all select client_id, null from client",
        "The id {key} is that of a manager or client in {cells}.",
        "Continue the move of its customer, if one has begun. Otherwise remove the account in the restored cell: "
        "`keyrack manager remove {key} --cell NAME`, or `keyrack client remove {key} --cell NAME`.",
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


async def examine_shared_keys(connections: Mapping[str, Connection]) -> list[Finding]:
    """Find rows that two cells have and may not have. The argument has an open transaction by cell."""
    return [line for shared in SHARED_KEYS for line in await _doubles(connections, shared)]


async def _doubles(connections: Mapping[str, Connection], shared: SharedKey) -> list[Finding]:
    lines: list[Finding] = []
    rows: LiteralString = SORTED.replace("{rows}", shared.rows)
    streams = {cell: _stream(connection, rows) for cell, connection in connections.items()}
    async for key, values in common_keys(streams):
        if shared.is_value_shared and len(set(values.values())) == 1:
            continue
        told = {"key": key, "value": next(iter(values.values())), "cells": f"the cells {', '.join(values)}"}
        lines.append(failure(shared.code, shared.text.format(**told), shared.action.format(**told)))
        if len(lines) == MOST:
            break
    for connection in connections.values():
        await connection.execute("close all")
    return lines or [ok(shared.code, f"no two cells have the same {shared.code.replace('-', ' ')}")]


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


async def examine_all(connected: Mapping[str, tuple[Cell, Connection]]) -> dict[str, list[Finding]]:
    """The findings by cell, and those of all together under `ALL`.

    The argument has each cell with a connection of `reading`. Raises the errors of asyncpg.
    """
    findings: dict[str, list[Finding]] = {}
    usable: dict[str, Connection] = {}
    extensions: dict[str, Sequence[str]] = {}
    for name, (cell, connection) in connected.items():
        findings[name] = await examine_cell(connection, cell)
        extensions[name] = await connection.fetchval(EXTENSIONS)
        if findings[name][0].level == 0:  # its schema is that of this release
            usable[name] = connection
    findings[ALL] = [*examine_extensions(extensions), *await examine_shared_keys(usable)]
    return findings
