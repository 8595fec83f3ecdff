"""In charge of what a process that serves has open: connections, what it remembers, its loops; and of closing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from keyrack.api.event_stream import Hub
from keyrack.api.odata import Limits
from keyrack.api.response_spool import Spool
from keyrack.auth import signing_keys
from keyrack.auth.authenticator import Access
from keyrack.auth.cache_invalidation import CHANGES
from keyrack.auth.denial_log import Refusals
from keyrack.auth.sso.login_flow import SignOn
from keyrack.changelog.feed_stream import Feed
from keyrack.core.background_tasks import lasting
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.change_notifier import CHANNEL, Tell, Teller
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Vault
from keyrack.db.group_commit import Batches
from keyrack.db.notification_listener import Listener
from keyrack.db.replication.primary_connector import Connector
from keyrack.db.replication.primary_heartbeat import Heartbeat
from keyrack.db.replication.read_routing import Replicas
from keyrack.db.worker_wakeup import Announcer
from keyrack.http import connection_limits, static_services
from keyrack.http.endpoints.documents import Documents
from keyrack.http.endpoints.health import Readiness
from keyrack.offline_keys.issuing_keys import Signers
from keyrack.telemetry.ingest import Telemetry

OWN = 2  # connections that a process keeps for itself


@dataclass(frozen=True, slots=True)
class Process:
    """What is open as long as the process serves."""

    db: Database
    own: Database  # for access checks, log-ins and health, whatever the others do
    access: Access
    announce: Announcer
    tell: Tell
    replicas: Replicas | None
    batches: Batches
    refusals: Refusals
    sign_on: SignOn
    made: Mapping[type, object]  # what an endpoint may name, by its type


@asynccontextmanager
async def opened(settings: Settings, dsn: str, readiness: Readiness) -> AsyncGenerator[Process]:
    """Open what the process needs, and close it. Raises `Unavailable` while the database cannot be reached."""
    connector = Connector(dsn, settings)
    db = await Database.connect(connector, settings)
    own = await Database.connect(connector, settings, application="keyrack access", size=OWN)
    acting.set(system("server"))
    vault = await open_vault(own, settings)
    await signing_keys.ensure(own, vault)
    acting.set(None)  # each request says who it is of
    access = Access(own, settings, vault)
    access.heartbeat = heartbeat = Heartbeat(connector, settings, "serve")
    readiness.proven = access.check
    replicas = await Replicas.connect(connector, settings, heartbeat)
    hub = Hub(settings, connection_limits.room(settings) // 2)
    feed = Feed(db, hub, settings, access)

    def forget() -> None:
        access.forget()
        hub.look_again()

    def hear(payload: str) -> None:
        if replicas is not None:
            replicas.hear(payload)
        hub.hear(payload)
        feed.hear(payload)

    def begun() -> None:
        if replicas is not None:
            replicas.lost()
        hub.lost()
        feed.lost()

    def renewed(_moved: bool) -> None:
        access.forget()  # what is being asked just now may be answered by an old leader

    access.listener = Listener(
        connector.direct(settings), {"keyrack_access": forget}, forget, CHANGES, bound=settings.access_seconds,
        read={CHANNEL: hear}, begun=begun,
    )  # fmt: skip
    connector.leadership.watch(renewed)
    announce, tell, batches = Announcer(db), Teller(db), Batches(db)
    refusals = Refusals(own, settings.refusal_seconds)
    sign_on = SignOn(own, settings, vault)
    tasks = [
        asyncio.create_task(lasting("listener", access.listener.run)),
        asyncio.create_task(lasting("heartbeat", heartbeat.run)),
        asyncio.create_task(lasting("announcer", announce.run)),
        asyncio.create_task(lasting("teller", tell.run)),
        asyncio.create_task(lasting("streams", hub.run)),
        asyncio.create_task(lasting("refusals", refusals.run)),
        asyncio.create_task(lasting("watch", partial(readiness.watch, own.reading()))),
    ]
    if replicas is not None:
        tasks.append(asyncio.create_task(lasting("replicas", replicas.run)))
    made: dict[type, object] = {
        Settings: settings,
        Access: access,
        Vault: vault,
        Signers: Signers(vault),
        Limits: static_services.limits(settings),
        Spool: Spool(settings.spool_bytes, settings.spool_directory),
        Telemetry: Telemetry(batches, settings, tell),
        Hub: hub,
        Feed: feed,
        Documents: static_services.documents(settings),
        Readiness: readiness,
    }
    try:
        if connector.leadership.fails_over:  # who asks at once is not to be refused for it
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.database_proof_seconds):
                    await heartbeat.proven.wait()
        yield Process(db, own, access, announce, tell, replicas, batches, refusals, sign_on, made)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await refusals.write()
        await sign_on.close()
        await feed.close()
        if replicas is not None:
            await replicas.close()
        await own.close()
        await db.close()
