"""One side of a move: a cell with a connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

import asyncpg

from keyrack.core.settings import Cell
from keyrack.db.connection import Row
from keyrack.db.session_settings import open_session, prepare

State = Literal["copying", "held", "switched", "finished", "undone"]
Role = Literal["source", "target"]

READ: LiteralString = """
select move_id, role, other_cell, state, held_at, switched_at from cell_move
where moved_customer = $1 and state in ('copying', 'held', 'switched')
"""
KNOWN: LiteralString = "select state from cell_move where move_id = $1"
BEGIN: LiteralString = """
insert into cell_move (move_id, moved_customer, role, other_cell) values ($1, $2, $3, $4)
on conflict (move_id) do nothing
"""
END_OTHERS: LiteralString = """
update cell_move set state = 'undone', ended_at = clock_timestamp()
where moved_customer = $2 and move_id <> $1 and state in ('copying', 'held', 'switched')
"""
APPLICATION = "keyrack move"
# Statements that are prepared before writes are held stay prepared
STATEMENTS = {"statement_cache_size": 500, "max_cached_statement_lifetime": 0}
EVERY_CUSTOMER = 0  # in place of the id of a customer: the whole database is moved


class MoveRefused(Exception):
    """The move cannot begin or continue; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class OpenMove:
    """A move that is neither finished nor undone."""

    id: UUID
    role: Role
    other_cell: str
    state: State
    held_at: datetime | None
    switched_at: datetime | None


@dataclass(frozen=True, slots=True)
class Side:
    """A cell in a move, with a session without guard."""

    cell: Cell
    address: str  # without PgBouncer
    raw: asyncpg.Connection

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        return await self.raw.fetch(sql, *args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        return await self.raw.fetchval(sql, *args)

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        return await self.raw.fetchrow(sql, *args)

    async def execute(self, sql: str, *args: object) -> str:
        return await self.raw.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self, *, has_triggers: bool = True) -> AsyncGenerator[None]:
        """A transaction. Without triggers, rows are written as replication writes them: nothing follows from them."""
        async with self.raw.transaction():
            if not has_triggers:
                await self.execute("set local session_replication_role = replica")
            yield

    async def open_move(self, customer: int) -> OpenMove | None:
        """The open move of the customer that this cell knows."""
        rows = await self.fetch(READ, customer)
        return OpenMove(*rows[0].values()) if rows else None

    async def begin_move(self, move: UUID, customer: int, role: Role, other: str) -> None:
        """Record the move, unless it is recorded already."""
        await self.execute(BEGIN, move, customer, role, other)

    async def end_other_moves(self, move: UUID, customer: int) -> None:
        """End older moves of the customer that a restore has made open."""
        await self.execute(END_OTHERS, move, customer)

    async def state(self, move: UUID) -> State | None:
        """The state of the move in this cell; None without it."""
        return await self.fetchval(KNOWN, move)


@asynccontextmanager
async def open_side(cell: Cell, address: str, customer: int) -> AsyncGenerator[Side]:
    """Connect to a cell for the move of a customer. Raises asyncpg's errors."""
    parameters = {
        "application_name": APPLICATION,
        "keyrack.moved_customer": str(customer),
        "default_transaction_read_only": "off",  # a move that was interrupted may have made the database read-only
    }
    raw = await open_session(address, server_settings=parameters, **STATEMENTS)
    try:
        await prepare(raw)
        yield Side(cell, address, raw)
    finally:
        await raw.close()
