"""Batch items: notices of items whose chunk is repeated."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, LiteralString

from keyrack.api import batch_items
from keyrack.api.exchange import NO_CONTENT, Request, Response
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter

REFUSED = ErrorCode("refused", "Refused by the database.")


async def announcing(request: Request, notice: LiteralString, _services: object) -> Response:
    await request.db.execute("select 1")
    request.announce(notice)
    return NO_CONTENT


async def breaking(request: Request, _value: object, _services: object) -> Response:
    """Fail in the database, so that the chunk is repeated."""
    try:
        await request.db.execute("select 1 / 0")
    except Exception as error:
        raise Conflict(REFUSED) from error
    return NO_CONTENT


def request(db: Database) -> Request:
    return Request(
        db=db, batches=GroupCommitter(db), announce=lambda _: None, id="id", method="POST", path="/batch",
        address="127.0.0.1", caller=None, customer=1, ids=(), query=b"", body=b"", chunks=True,
    )  # fmt: skip


def test_a_notice_is_sent_once_although_its_chunk_is_repeated(dsn: str, settings: Settings) -> None:
    async def told() -> tuple[list[batch_items.Result], list[str]]:
        db = await Database.connect(dsn, settings)
        names: list[LiteralString] = ["a", "b"]
        runs: list[tuple[Any, object]] = [(announcing, names[0]), (breaking, None), (announcing, names[1])]
        todo = [batch_items.BatchItem(SimpleNamespace(handler=run), request(db), value) for run, value in runs]
        notices: list[str] = []
        try:
            async with db.transaction() as connection:
                return await batch_items.run_items(connection, todo, None, notices.append), notices
        finally:
            await db.close()

    results, notices = asyncio.run(told())
    assert [isinstance(one, Conflict) for one in results] == [False, True, False]
    assert notices == ["a", "b"]
