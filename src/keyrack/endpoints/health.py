"""Health: whether this process lives, and whether it is ready for requests. All ours, and for anybody."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, LiteralString

from pydantic import BaseModel, Field

from keyrack.api.endpoint import PUBLIC, Endpoints
from keyrack.api.exchange import Answer, Request, answer
from keyrack.database import schema
from keyrack.database.connection import UNREACHABLE, Connection, Database, is_interruption
from keyrack.database.trouble import Interruptions
from keyrack.errors import JSON, Unavailable
from keyrack.logs import MINUTE
from keyrack.reasons import DATABASE_AWAY, Reason
from keyrack.settings import Settings
from keyrack.vault.master import MasterKeyError
from keyrack.vault.sealing import CLOSED, Vault

endpoints = Endpoints("Health")
seldom = Interruptions("keyrack.health", MINUTE)

NO_WRITES = Reason(
    "database-read-only",
    "The database takes no writes at the moment. Please try again.",
    "Tell the operator: its disk is full, or it is a standby. Try again later.",
)
OLD_SCHEMA = Reason(
    "schema-not-current",
    "The database's schema is not the one that this server needs.",
    "Tell the operator: `keyrack migrate` brings it up to date.",
)
STOPPING = Reason(
    "stopping",
    "The server is about to stop. Please try again.",
    "Send requests to another server, or again when this one is back.",
)
NOT_READY = Reason("not-ready", "The server is not ready.", "Read `reasons`: they say why, and what to do about it.")

WRITE: LiteralString = "update write_check set at = now()"
# That row has its place. Whether the disk has room for more, a set tells that is too large for its memory
LITTLE_MEMORY: LiteralString = "set local work_mem = '64kB'"
SPILL: LiteralString = "select count(*) from generate_series(1, 10000)"

FRESH = {"Cache-Control": "no-store"}


class Why(BaseModel):
    code: str
    detail: str


class Unready(BaseModel):
    status: Literal["unavailable"]
    reasons: Annotated[list[Why], Field(description="Each reason for it, by a code of docs/errors.md.")]


class NotReady(Unavailable):
    """503 with all reasons."""

    media_type = JSON

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__(NOT_READY)
        self.headers |= FRESH
        self.reasons = [{"code": reason.code, "detail": reason.text} for reason in reasons]

    def extensions(self) -> dict[str, object]:
        return {**super().extensions(), "reasons": self.reasons}

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"status": "unavailable", "reasons": self.reasons}).encode()


def _always() -> None:
    """Where there is one server, which leads."""


@dataclass(slots=True)
class Readiness:
    """Whether requests can be answered: the database takes writes, which is tried by writing, its schema and its
    secrets are for this server, and it is sure to ask the leader. It is looked at once in `EVERY` seconds at most,
    however many ask.
    """

    EVERY: ClassVar[float] = 1.0

    settings: Settings
    proven: Callable[[], object] = _always  # that the leader is asked; raises `Unavailable`
    _stopping: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _until: float = 0.0  # when the last look is too old
    _found: tuple[Reason, ...] = ()

    def stop(self) -> None:
        """The process is going to stop."""
        self._stopping = True

    async def reasons(self, db: Database) -> tuple[Reason, ...]:
        """Why it is not ready; none where it is."""
        async with self._turn:
            if time.monotonic() >= self._until:
                self._found = await self._look(db)
                self._until = time.monotonic() + self.EVERY
        return (*self._found, *self._unproven(), *((STOPPING,) if self._stopping else ()))

    def _unproven(self) -> tuple[Reason, ...]:
        try:
            self.proven()
        except Unavailable as refusal:
            return (refusal.reason,)
        return ()

    async def _look(self, db: Database) -> tuple[Reason, ...]:
        try:
            async with db.transaction() as connection:
                return await self._reasons(connection)
        except Exception as error:
            if not is_interruption(error):
                raise
            seldom.warning("not ready: the database is away, or takes no writes", error=error)
            return (DATABASE_AWAY if isinstance(error, UNREACHABLE) else NO_WRITES,)

    async def _reasons(self, connection: Connection) -> tuple[Reason, ...]:
        if not await schema.is_ours(connection):
            return (OLD_SCHEMA,)
        await connection.execute(WRITE)
        await connection.execute(LITTLE_MEMORY)
        await connection.execute(SPILL)
        try:
            await Vault(connection, self.settings).load()
        except MasterKeyError as error:
            seldom.warning("not ready: the secrets of the database are closed to this node", reason=str(error))
            return (CLOSED,)
        return ()


@endpoints.write(
    "GET",
    "/health",
    "Whether the server is ready: its database takes reads and writes",
    refuses={503: (NO_WRITES, OLD_SCHEMA, CLOSED, STOPPING)},
    **PUBLIC,
)
async def health(request: Request, readiness: Readiness) -> Answer:
    reasons = await readiness.reasons(request.db)
    if reasons:
        raise Unavailable(reasons[0])
    return answer({"status": "ok"}, headers=FRESH)


@endpoints.write("GET", "/health/live", "Whether the process answers; the database is not asked", **PUBLIC)
async def live(request: Request) -> Answer:
    return answer({"status": "ok"}, headers=FRESH)


@endpoints.write(
    "GET",
    "/health/ready",
    "Whether the server is ready; if not, all reasons why",
    refuses={503: (NOT_READY,)},
    reports={503: Unready},
    **PUBLIC,
)
async def ready(request: Request, readiness: Readiness) -> Answer:
    reasons = await readiness.reasons(request.db)
    if reasons:
        raise NotReady(reasons)
    return answer({"status": "ok"}, headers=FRESH)
