"""Health: liveness and readiness of the process. All are public extensions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, LiteralString, Protocol

import structlog
from pydantic import BaseModel, ConfigDict, Field

from keyrack.api.auth_schemes import PublicAuth
from keyrack.api.endpoint import Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.schema.json_schema import NamedSchema, object_schema, text_schema
from keyrack.assignments.worker_liveness import seconds_without_worker
from keyrack.core.error_codes import DATABASE_AWAY, ErrorCode
from keyrack.core.errors import JSON, Unavailable
from keyrack.core.log_config import MINUTE
from keyrack.core.settings import Settings
from keyrack.db import archive_status, schema_version
from keyrack.db.connection import UNREACHABLE, Connection, Database, is_interruption
from keyrack.db.encryption.cipher import CLOSED, Encryption
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.db.throttled_log import ThrottledLogger

log = structlog.get_logger("keyrack.health")
seldom = ThrottledLogger("keyrack.health", MINUTE)

NO_WRITES = ErrorCode(
    "database-read-only",
    "The database accepts no writes at the moment. Please try again.",
    "Ask the operator to check the database: its disk is full, or it is a standby.",
)
SILENT = ErrorCode(
    "database-silent",
    "The database does not answer in time. Please try again.",
    "Ask the operator to check the database: it is stuck, overloaded or unreachable.",
)
OLD_SCHEMA = ErrorCode(
    "schema-not-current",
    "The database schema does not match this server.",
    "Ask the operator to run `keyrack migrate`.",
)
STOPPING = ErrorCode(
    "stopping",
    "The server is shutting down. Please try again.",
    "Send requests to another server, or retry when this one is back.",
)
NOT_READY = ErrorCode("not-ready", "The server is not ready.", "Look up each code in `reasons`, and follow its remedy.")

# Warnings in a 200. The node still accepts and stores requests, so a load balancer must not remove it
NO_WORKER = ErrorCode(
    "no-worker",
    "Queued work has waited for {seconds} seconds, and no worker is running.",
    "Start `keyrack work`, or `keyrack serve` without `--no-worker`.",
)
ARCHIVE_LATE = ErrorCode(
    "archive-late",
    "The last WAL segment was archived {seconds} seconds ago.",
    "Check the disk of the archive: WAL that is not archived fills the disk of the database.",
)
NEVER_ARCHIVED = ARCHIVE_LATE.with_text("Archiving the WAL fails.")

WRITE: LiteralString = "update write_check set at = now()"
# The update above needs no new space. A set that exceeds `work_mem` goes to disk, and so shows whether the disk has
# room
LITTLE_MEMORY: LiteralString = "set local work_mem = '64kB'"
SPILL: LiteralString = "select count(*) from generate_series(1, 10000)"

FRESH = {"Cache-Control": "no-store"}


CELLS = "The state of each cell; omitted if the server has no cells. The server is ready while one of them is."


class ReadinessReason(BaseModel):
    model_config = ConfigDict(title="Why")

    code: str
    detail: str
    previous_code: Annotated[str, Field(alias="previousCode")] = ""


class CellState(BaseModel):
    """The readiness of one cell."""

    name: Annotated[str, Field(description="The name of the cell in the settings; `main` for cell 0.")]
    number: Annotated[int, Field(description="The number of the cell.")]
    status: Annotated[Literal["ok", "unavailable"], Field(description="Whether the cell serves its customers.")]
    reasons: Annotated[list[ReadinessReason], Field(description="All reasons why the cell is unavailable.")] = []
    warnings: Annotated[list[ReadinessReason], Field(description="Problems that do not make it unavailable.")] = []


class NotReadyBody(BaseModel):
    model_config = ConfigDict(title="Unready")

    status: Literal["unavailable"]
    reasons: Annotated[list[ReadinessReason], Field(description="All reasons why the server is not ready.")]
    warnings: Annotated[list[ReadinessReason], Field(description="Problems that do not make the server unready.")] = []
    cells: Annotated[list[CellState], Field(description=CELLS)] = []


class NotReady(Unavailable):
    """503 with all reasons."""

    media_type = JSON

    def __init__(self, reasons: tuple[ErrorCode, ...], warnings: tuple[ErrorCode, ...]) -> None:
        super().__init__(NOT_READY)
        self.headers |= FRESH
        self.extension_members = {"reasons": _as_json(reasons)} | _warned(warnings)

    def extensions(self) -> dict[str, object]:
        return {**super().extensions(), **self.extension_members}

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"status": "unavailable", **self.extension_members}).encode()


def _as_json(reasons: tuple[ErrorCode, ...]) -> list[dict[str, str]]:
    return [
        {"code": reason.code, "detail": reason.text}
        | ({} if reason.previous is None else {"previousCode": reason.previous})
        for reason in reasons
    ]


def _warned(warnings: tuple[ErrorCode, ...]) -> dict[str, list[dict[str, str]]]:
    return {"warnings": _as_json(warnings)} if warnings else {}


def _always() -> None:
    """The check of a process that needs no confirmed primary."""


@dataclass(slots=True)
class Readiness:
    """Whether the server can answer requests.

    It is ready if the database accepts writes, which a write tests, if schema and secrets are those of this server, and
    if the server is confirmed to use the primary. A check runs at most every `EVERY` seconds, for all callers. A caller
    waits at most `KEYRACK_HEALTH_CHECK_TIMEOUT_SECONDS`, even if the database takes longer.

    Warnings about the whole installation are updated every `ROUND` seconds.
    """

    EVERY: ClassVar[float] = 1.0
    ROUND: ClassVar[float] = 5.0

    settings: Settings
    check_primary: Callable[[], object] = _always  # confirms the primary; raises `Unavailable`
    warnings: tuple[ErrorCode, ...] = ()  # problems that do not make this node unready
    _stopping: bool = False
    _check_started_at: float = 0.0  # of the running check
    _check: asyncio.Task[tuple[ErrorCode, ...]] | None = None
    _stale_at: float = 0.0  # when the last result becomes stale
    _last_reasons: tuple[ErrorCode, ...] = ()
    _alerted_at: float = 0.0  # time of the last alert

    def stop(self) -> None:
        """The process begins to stop."""
        self._stopping = True

    def is_stopping(self) -> bool:
        """Whether shutdown has begun."""
        return self._stopping

    async def reasons(self, db: Database) -> tuple[ErrorCode, ...]:
        """The reasons why the server is not ready; empty if it is."""
        return (*await self._current_reasons(db), *self._unproven(), *((STOPPING,) if self._stopping else ()))

    async def watch(self, db: Database) -> None:
        """Update the warnings for operators, and log them, until cancelled."""
        while True:
            try:
                self.warnings = await self._find_warnings(db)
            except Exception as error:  # `reasons` reports an unreachable database
                if not is_interruption(error):
                    raise
                seldom.warning("worker check failed, database unreachable or slow", error=error)
            await asyncio.sleep(self.ROUND)

    async def _find_warnings(self, db: Database) -> tuple[ErrorCode, ...]:
        errors: list[ErrorCode] = []
        if (waited := await seconds_without_worker(db)) is not None:
            errors.append(NO_WORKER.format(seconds=int(waited)))
            if time.monotonic() - self._alerted_at >= MINUTE or not self._alerted_at:
                self._alerted_at = time.monotonic()
                log.critical("no worker running", alert=True, seconds=int(waited))
        else:
            self._alerted_at = 0.0
        archive = await archive_status.standing(db)
        if archive.late:
            errors.append(NEVER_ARCHIVED if archive.age is None else ARCHIVE_LATE.format(seconds=int(archive.age)))
        return tuple(errors)

    def _unproven(self) -> tuple[ErrorCode, ...]:
        try:
            self.check_primary()
        except Unavailable as refusal:
            return (refusal.reason,)
        return ()

    async def _current_reasons(self, db: Database) -> tuple[ErrorCode, ...]:
        """The last result if it is fresh, else the result of a check, within the timeout.

        A check writes, so it is never cancelled, and only one runs at a time.
        """
        now = time.monotonic()
        if self._check is None and now >= self._stale_at:
            self._check_started_at = now
            self._check = asyncio.create_task(self._run_check(db))
            self._check.add_done_callback(self._keep_result)
        if self._check is None:
            return self._last_reasons
        looking = self._check
        await asyncio.wait(
            (looking,), timeout=max(0.0, self._check_started_at + self.settings.health_check_timeout_seconds - now)
        )
        if looking.done():
            return looking.result()
        seldom.warning("not ready, database timed out", seconds=self.settings.health_check_timeout_seconds)
        return (SILENT,)

    def _keep_result(self, look: asyncio.Task[tuple[ErrorCode, ...]]) -> None:
        self._check = None
        if not look.cancelled() and look.exception() is None:
            self._last_reasons = look.result()
            self._stale_at = time.monotonic() + self.EVERY

    async def _run_check(self, db: Database) -> tuple[ErrorCode, ...]:
        try:
            async with db.transaction() as connection:
                return await self._reasons(connection)
        except Exception as error:
            if not is_interruption(error):
                raise
            seldom.warning("not ready, database unreachable or read-only", error=error)
            return (DATABASE_AWAY if isinstance(error, UNREACHABLE) else NO_WRITES,)

    async def _reasons(self, connection: Connection) -> tuple[ErrorCode, ...]:
        if not await schema_version.is_ours(connection):
            return (OLD_SCHEMA,)
        await connection.execute(WRITE)
        await connection.execute(LITTLE_MEMORY)
        await connection.execute(SPILL)
        try:
            await Encryption(connection, self.settings).load()
        except MasterKeyError as error:
            seldom.warning("not ready, encryption key unavailable", reason=str(error))
            return (CLOSED,)
        return ()


class HealthServices(Protocol):
    """The readiness of the process."""

    @property
    def readiness(self) -> Readiness: ...


endpoints = Endpoints[HealthServices](
    Tag("Health", "Liveness and readiness of the server."), PublicAuth(), is_extension=True
)


HEALTHY = NamedSchema(
    "Healthy", object_schema("The server is ready.", {"status": text_schema("Always `ok`.", const="ok")})
)
READY = NamedSchema(
    "Ready",
    object_schema(
        "The server is ready.",
        {"status": text_schema("Always `ok`.", const="ok")},
        {
            "warnings": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Why"},
                "description": "Problems that do not make the server unready; omitted if there are none.",
            },
            "cells": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/CellState"},
                "description": CELLS,
            },
        },
    ),
)


@endpoints.get(
    "/health",
    Doc(
        "getHealth",
        "Check whether the server can read and write its database",
        "For load balancers. The response is 503 with one reason if the server is not ready.",
    ),
    responses=Responses(200, schema=HEALTHY, errors={503: (NO_WRITES, SILENT, OLD_SCHEMA, CLOSED, STOPPING)}),
)
async def health(request: Request, services: HealthServices) -> Response:
    reasons = await services.readiness.reasons(request.db)
    if reasons:
        raise Unavailable(reasons[0])
    return answer({"status": "ok"}, headers=FRESH)


@endpoints.get(
    "/health/live",
    Doc(
        "getLiveness",
        "Check whether the process responds",
        "For process supervisors. Does not check the database.",
    ),
    responses=Responses(200, schema=HEALTHY),
)
async def live(request: Request) -> Response:
    return answer({"status": "ok"}, headers=FRESH)


@endpoints.get(
    "/health/ready",
    Doc(
        "getReadiness",
        "Check whether the server is ready, with all reasons and warnings",
        "For load balancers and operators. A 503 has all reasons. A 200 can have warnings.",
    ),
    responses=Responses(
        200,
        schema=READY,
        errors={503: (NOT_READY,)},
        item_errors={200: (NO_WORKER, ARCHIVE_LATE)},
        error_models={503: NotReadyBody},
    ),
)
async def ready(request: Request, services: HealthServices) -> Response:
    reasons = await services.readiness.reasons(request.db)
    if reasons:
        raise NotReady(reasons, services.readiness.warnings)
    return answer({"status": "ok", **_warned(services.readiness.warnings)}, headers=FRESH)
