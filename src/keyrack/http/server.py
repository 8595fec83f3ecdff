"""In charge of a request's way: API key -> token -> manager -> customer -> content type -> body -> endpoint.

What of the process an endpoint works with is opened here, and given to those that name it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import asyncpg
import falcon.asgi

from keyrack.access import signing
from keyrack.access.auth import CHANGES, Access, Manager
from keyrack.api import idempotency
from keyrack.api.endpoint import Check, Endpoint
from keyrack.api.exchange import Answer, Request, Undone
from keyrack.api.representation import minimal, representation
from keyrack.api.spool import Spool
from keyrack.assignments.holds import Turns, drain
from keyrack.database import notices
from keyrack.database.batching import Batches
from keyrack.database.connection import Database
from keyrack.database.listener import Listener
from keyrack.database.notices import Announcer
from keyrack.documents import errors, openapi, reference, refusals
from keyrack.endpoints import ALL
from keyrack.endpoints.documents import Documents, Readiness
from keyrack.errors import Refusal, Unavailable
from keyrack.http import intake
from keyrack.http.compression import Compression
from keyrack.http.preferences import NONE, preferences
from keyrack.http.trace import ID
from keyrack.http.underway import Room, Underway
from keyrack.loops import lasting
from keyrack.model.bodies import checked
from keyrack.odata import Limits
from keyrack.reasons import NOT_NOW
from keyrack.settings import Settings
from keyrack.telemetry.ingest import Telemetry
from keyrack.vault.keeping import open_vault
from keyrack.vault.sealing import Vault

DEVICE_KEY = "Device-Key"
OWN = 2  # connections that a process keeps for itself
DEADLOCKS = 4  # in which the database may choose the same request to give way, before the caller is told to


@dataclass(slots=True)
class Handler:
    """An endpoint with the parts of the process that it names."""

    endpoint: Endpoint
    parts: list[object] = field(default_factory=list[object])
    before_parts: list[object] = field(default_factory=list[object])
    shown_parts: list[Any] = field(default_factory=list[Any])  # of the read that it shows

    async def before(self, request: Request, value: Any) -> Any:
        """What `run` gets for the checked body."""
        if self.endpoint.before is None:
            return value
        return await self.endpoint.before(request, value, *self.before_parts)

    async def run(self, request: Request, value: Any) -> Answer:
        if request.returns == "representation":
            return await representation(request, partial(self._run, value), self.endpoint, *self.shown_parts)
        if request.returns:
            return await minimal(request, partial(self._run, value))
        return await self._run(value, request)

    async def _run(self, value: Any, request: Request) -> Answer:
        return await self.endpoint.run(request, value, *self.parts)


@dataclass(frozen=True, slots=True)
class Process:
    """What is open as long as the process serves."""

    db: Database
    own: Database  # for access checks, log-ins and health, whatever the others do
    access: Access
    announce: Announcer
    batches: Batches


class Server:
    """The checks that every endpoint has in common, and what the process has to do its work with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.handlers: list[Handler] = []
        self._key_header = f"{settings.brand}-API-Key"
        self._turns = Turns(settings.hold_waiting)
        self._underway = Underway(settings)
        self.compression = Compression(settings)
        self._process: Process | None = None

    @asynccontextmanager
    async def lifespan(self, dsn: str) -> AsyncGenerator[None]:
        """Open what the process needs, and close it."""
        db = await Database.connect(dsn, self.settings)
        own = await Database.connect(dsn, self.settings, application="keyrack access", size=OWN)
        vault = await open_vault(own, self.settings)
        await signing.ensure(own, vault)
        access = Access(own, self.settings, vault)
        access.listener = Listener(
            dsn, {"keyrack_access": access.forget}, access.forget, CHANGES, bound=self.settings.access_seconds
        )
        announce = Announcer(db)
        batches = Batches(db)
        tasks = [
            asyncio.create_task(lasting("listener", access.listener.run)),
            asyncio.create_task(lasting("announcer", announce.run)),
        ]
        parts: dict[type, object] = {
            Settings: self.settings,
            Access: access,
            Vault: vault,
            Limits: _limits(self.settings),
            Spool: Spool(self.settings.spool_bytes, self.settings.spool_directory),
            Telemetry: Telemetry(batches, self.settings),
            Documents: _documents(self.settings),
            Readiness: Readiness(),
        }
        for handler in self.handlers:
            handler.parts = [parts[part] for part in handler.endpoint.parts]
            handler.before_parts = [parts[part] for part in handler.endpoint.before_parts]
            if handler.endpoint.shows is not None:
                handler.shown_parts = [parts[part] for part in handler.endpoint.shows.parts]
        self._process = Process(db, own, access, announce, batches)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            self.compression.close()
            await own.close()
            await db.close()

    @property
    def process(self) -> Process:
        """Raises `Unavailable` until the process is ready."""
        if self._process is None:
            raise Unavailable
        return self._process

    async def serve(self, http: falcon.asgi.Request, handler: Handler, params: Mapping[str, str]) -> Answer:
        """Answer one request. Raises `Refusal`."""
        if not handler.endpoint.raw:
            return await self._serve(http, handler, params, None)
        with self._underway.room(http.get_header(DEVICE_KEY) or "") as room:
            return await self._serve(http, handler, params, room)

    async def _serve(
        self, http: falcon.asgi.Request, handler: Handler, params: Mapping[str, str], room: Room | None
    ) -> Answer:
        process, endpoint = self.process, handler.endpoint
        manager = await self.caller(http, key=endpoint.key, token=endpoint.token)
        customer = intake.customer(http, manager) if endpoint.customer and manager else 0
        device = await process.access.device(http.get_header(DEVICE_KEY), endpoint.device) if endpoint.device else None
        customer = device.customer if device else customer
        expected = intake.expected(http, endpoint)
        body, value, preferred = b"", None, NONE
        if endpoint.body is not None or endpoint.shows is not None:
            preferred = preferences(http.get_header("Prefer"))
        if endpoint.body is not None or endpoint.raw:
            body = await intake.body(http, endpoint, self.settings, room)
        if endpoint.form is not None:
            value = endpoint.form(body)
        elif endpoint.body is not None:
            value = checked(endpoint.body, body, endpoint.what, strict=preferred.strict)
        request = Request(
            self._database(endpoint, manager, customer), process.batches, process.announce, http.scope[ID],
            http.method, http.path, http.remote_addr, manager, customer, intake.ids(endpoint, params),
            http.scope["query_string"], body, http.scope["http_version"] != "1.0", device,
            preferred.returns if endpoint.shows is not None else "", expected, http.get_header("If-None-Match"),
        )  # fmt: skip
        value = await handler.before(request, value)
        key = http.get_header("Idempotency-Key") if endpoint.repeatable else None
        ground = endpoint.ground or (endpoint.settled if request.compares else None)
        for _ in range(DEADLOCKS):
            try:
                if ground is None or not endpoint.settles(value):
                    return await self._once(handler, request, value, key)
                return await self._on_settled_ground(ground, handler, request, value, key)
            except asyncpg.DeadlockDetectedError:
                continue  # it did nothing; whoever it stood against goes on now
            except Undone as undone:
                if isinstance(undone.outcome, Refusal):
                    raise undone.outcome from None
                return undone.outcome
        raise Unavailable(NOT_NOW)

    def _database(self, endpoint: Endpoint, manager: Manager | None, customer: int) -> Database:
        """The database on behalf of whoever asks; who is not known yet is served by the process's own connections."""
        if manager is None and not customer:
            return self.process.own
        return self.process.db.of(customer, manager.id if manager else 0, reads=endpoint.method == "GET")

    async def caller(self, http: falcon.asgi.Request, *, key: bool, token: bool) -> Manager | None:
        """Who calls, as far as these are asked for. Raises `Unauthorized`, `NotFound`."""
        access = self.process.access
        if key:
            await access.check_key(http.get_header(self._key_header))
        return await access.manager(http.get_header("Authorization")) if token else None

    async def _once(self, handler: Handler, request: Request, value: Any, key: str | None) -> Answer:
        if key is None:
            return await handler.run(request, value)
        hours = self.settings.idempotency_hours
        return await idempotency.once(request, key, hours, lambda request: handler.run(request, value))

    async def _on_settled_ground(
        self, check: Check, handler: Handler, request: Request, value: Any, key: str | None
    ) -> Answer:
        """The same after everything that was asked for before is applied.

        Who would be refused anyway is refused at once; but a request with a key may have had its answer already.
        """
        if key is None:
            await check(request.db, request, value)
        try:
            async with self._turns.of(request.customer):
                await drain(request.db, request.customer, self.settings)
                return await self._once(handler, request, value, key)
        finally:
            request.announce(notices.WORK)
            request.announce(notices.DELIVER)


def _documents(settings: Settings) -> Documents:
    """The documents, made when somebody asks for them first."""

    @cache
    def document() -> dict[str, Any]:
        return openapi.document(ALL, settings)

    return Documents(
        cache(lambda: json.dumps(document()).encode()),
        cache(lambda: reference.page(document()).encode()),
        cache(lambda: errors.page(refusals.codes(ALL), settings.public_url).encode()),
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        nesting=settings.odata_nesting,
        nodes=settings.odata_nodes,
        items=settings.odata_items,
        orderby=settings.odata_orderby,
        select=settings.odata_select,
        top=settings.odata_top,
        digits=settings.odata_digits,
        expanded=settings.odata_expanded,
        transformations=settings.odata_transformations,
        properties=settings.odata_properties,
    )
