"""Documents: what this server is, whether it is ready, its OpenAPI document and its reference page. All ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, LiteralString

from keyrack import __version__
from keyrack.api import conditions
from keyrack.api.endpoint import PUBLIC, TAGGED, Endpoints
from keyrack.api.exchange import Answer, Request, answer
from keyrack.database.connection import UNREACHABLE, Database, is_interruption
from keyrack.errors import Unavailable
from keyrack.logs import Seldom
from keyrack.reasons import DATABASE_AWAY, Reason
from keyrack.settings import Settings

endpoints = Endpoints("Documents")
seldom = Seldom("keyrack.health")

NO_WRITES = Reason(
    "database-read-only",
    "The database takes no writes at the moment. Please try again.",
    "Tell the operator: its disk is full, or it is a standby. Try again later.",
)

HTML = "text/html; charset=utf-8"
POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}

WRITE: LiteralString = "update write_check set at = now()"
# That row has its place. Whether the disk has room for more, a set tells that is too large for its memory
LITTLE_MEMORY: LiteralString = "set local work_mem = '64kB'"
SPILL: LiteralString = "select count(*) from generate_series(1, 10000)"


@dataclass(frozen=True, slots=True)
class Documents:
    """What is made from the table of endpoints, of which these endpoints are a part."""

    openapi: Callable[[], bytes]
    page: Callable[[], bytes]
    errors: Callable[[], bytes]


@endpoints.write("GET", "/", "What this server is", headers=TAGGED, **PUBLIC)
async def about(request: Request, settings: Settings) -> Answer:
    base = settings.public_url
    told = answer(
        {
            "name": "Keyrack",
            "version": __version__,
            "apiVersion": "3",
            "baseUrl": f"{base}/v3",
            "documentation": f"{base}/docs",
            "openapi": f"{base}/openapi.json",
        },
        headers={"Cache-Control": "no-cache"},  # whoever asks whether the process lives is not to hear it from a cache
    )
    return conditions.document(request, told)


@dataclass(slots=True)
class Readiness:
    """Whether the database takes writes, by writing: once in `EVERY` seconds at most, however many ask."""

    EVERY: ClassVar[float] = 1.0

    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _until: float = 0.0  # when the last look is too old
    _refusal: Reason | None = None

    async def check(self, db: Database) -> None:
        """Raises `Unavailable`: the database is away, or takes no writes."""
        async with self._turn:
            if time.monotonic() >= self._until:
                self._refusal = await self._look(db)
                self._until = time.monotonic() + self.EVERY
            if self._refusal is not None:
                raise Unavailable(self._refusal)

    async def _look(self, db: Database) -> Reason | None:
        try:
            async with db.transaction() as connection:
                await connection.execute(WRITE)
                await connection.execute(LITTLE_MEMORY)
                await connection.execute(SPILL)
        except Exception as error:
            if not is_interruption(error):
                raise
            seldom.warning("not ready: the database is away, or takes no writes", error=error)
            return DATABASE_AWAY if isinstance(error, UNREACHABLE) else NO_WRITES
        return None


@endpoints.write(
    "GET",
    "/health",
    "Whether the server is ready: its database takes reads and writes",
    refuses={503: (NO_WRITES,)},
    **PUBLIC,
)
async def health(request: Request, readiness: Readiness) -> Answer:
    await readiness.check(request.db)
    return answer({"status": "ok"}, headers={"Cache-Control": "no-store"})


@endpoints.write("GET", "/openapi.json", "This interface as OpenAPI 3.1", headers=TAGGED, **PUBLIC)
async def openapi(request: Request, documents: Documents) -> Answer:
    headers = {"Access-Control-Allow-Origin": "*"}
    return conditions.document(request, Answer(200, documents.openapi(), headers, fixed=True))


@endpoints.write("GET", "/docs", "This interface as a page to read", media_type=HTML, headers=TAGGED, **PUBLIC)
async def docs(request: Request, documents: Documents) -> Answer:
    return conditions.document(request, Answer(200, documents.page(), POLICY, HTML, fixed=True))


@endpoints.write(
    "GET", "/docs/errors", "The codes of refusals as a page to read", media_type=HTML, headers=TAGGED, **PUBLIC
)
async def errors(request: Request, documents: Documents) -> Answer:
    return conditions.document(request, Answer(200, documents.errors(), POLICY, HTML, fixed=True))
