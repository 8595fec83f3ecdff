"""A `Database` over one open transaction, for code that would begin its own transactions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, LiteralString

from keyrack.db.connection import Connection, Database, Row


class InTransaction(Database):
    """A database whose statements all run in one open transaction, each in a savepoint."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, customer: int, manager: int = 0, *, reads: bool = False) -> Database:
        """Itself: the transaction already has its connection."""
        return self

    def reading(self) -> Database:
        return self

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        async with self._connection.transaction():
            return await self._connection.fetch(sql, *args)

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        async with self._connection.transaction():
            return await self._connection.fetchrow(sql, *args)

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        async with self._connection.transaction():
            return await self._connection.fetchval(sql, *args)

    async def execute(self, sql: LiteralString, *args: object) -> None:
        async with self._connection.transaction():
            await self._connection.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        async with self._connection.transaction():
            yield self._connection
