"""Startup and shutdown of the services of a serving process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

from keyrack.api.event_stream import EventHub
from keyrack.api.response_spool import Spool
from keyrack.assignments.customer_lock import CustomerTurns
from keyrack.assignments.outcome_waits import OutcomeWaits
from keyrack.auth import signing_keys
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.cache_invalidation import CHANGES
from keyrack.auth.denial_log import DenialLog
from keyrack.auth.sso.login_flow import SignOn
from keyrack.changelog.feed_stream import FeedService
from keyrack.core.background_tasks import supervise
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.change_notifier import CHANNEL, ChangeNotifier
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.notification_listener import NotificationListener
from keyrack.db.other_cells import OtherCells
from keyrack.db.replication.primary_connector import PrimaryConnector
from keyrack.db.replication.primary_heartbeat import Heartbeat
from keyrack.db.replication.read_routing import ReadRouter
from keyrack.db.worker_wakeup import WakeupNotifier
from keyrack.drivers.cookies import DriverCookies
from keyrack.http import connection_limits, static_services
from keyrack.http.authentication import RequestAuthenticator
from keyrack.http.endpoints.health import Readiness
from keyrack.http.ingest_memory import IngestMemoryBudget
from keyrack.http.services import ServeServices
from keyrack.http.session_cookie import SessionCookies
from keyrack.offline_keys.issuing_keys import IssuingKeySigners
from keyrack.telemetry.ingest import Telemetry
from keyrack.webhooks.event_deliveries import EventPublisher
from keyrack.webhooks.queue_limit import QueueLimit

OWN = 2  # connections reserved for the process itself


@asynccontextmanager
async def open_services(
    settings: Settings, dsn: str, sessions: SessionCookies, readiness: Readiness
) -> AsyncGenerator[ServeServices]:
    """Open the services, and close them at the end. Raises `Unavailable` if the database is unreachable."""
    connector = PrimaryConnector(dsn, settings)
    db = await Database.connect(connector, settings)
    own = await Database.connect(connector, settings, application="keyrack access", size=OWN)
    acting.set(system("server"))
    vault = await open_vault(own, settings)
    await signing_keys.ensure(own, vault)
    acting.set(None)  # each request sets its own actor
    access = Authenticator(own, settings, vault)
    access.heartbeat = heartbeat = Heartbeat(connector, settings, "serve")
    readiness.check_primary = access.check
    replicas = await ReadRouter.connect(connector, settings, heartbeat)
    hub = EventHub(settings, connection_limits.max_connections(settings) // 2)
    feed = FeedService(db, hub, settings, access)
    waits = OutcomeWaits(db, settings, connection_limits.max_connections(settings) // 4, readiness.is_stopping)

    def forget() -> None:
        access.forget()
        hub.look_again()

    def hear(payload: str) -> None:
        if replicas is not None:
            replicas.hear(payload)
        hub.hear(payload)
        feed.hear(payload)
        waits.hear(payload)

    def begun() -> None:
        if replicas is not None:
            replicas.lost()
        hub.lost()
        feed.lost()
        waits.lost()

    def renewed(_moved: bool) -> None:
        access.forget()  # running lookups may be answered by the previous primary

    access.listener = NotificationListener(
        connector.direct(settings), {"keyrack_access": forget}, forget, CHANGES,
        timeout_seconds=settings.auth_cache_max_staleness_seconds, payload_handlers={CHANNEL: hear}, on_listen=begun,
    )  # fmt: skip
    connector.leadership.watch(renewed)
    announce, tell, batches = WakeupNotifier(db), ChangeNotifier(db), GroupCommitter(db)
    refusals = DenialLog(own, settings.denial_log_interval_seconds)
    sign_on = SignOn(own, settings, vault)
    other_cells = OtherCells(settings)
    tasks = [
        asyncio.create_task(supervise("notification listener", access.listener.run)),
        asyncio.create_task(supervise("heartbeat", heartbeat.run)),
        asyncio.create_task(supervise("worker wakeup", announce.run)),
        asyncio.create_task(supervise("change notifier", tell.run)),
        asyncio.create_task(supervise("event streams", hub.run)),
        asyncio.create_task(supervise("denial log", refusals.run)),
        asyncio.create_task(supervise("health check", partial(readiness.watch, own.reading()))),
    ]
    if replicas is not None:
        tasks.append(asyncio.create_task(supervise("read replicas", replicas.run)))
    try:
        if connector.leadership.fails_over:  # waits for the first heartbeat, so that early requests do not get 503
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.primary_lease_seconds):
                    await heartbeat.proven.wait()
        yield ServeServices(
            settings=settings,
            db=db,
            system_db=own,
            other_cells=other_cells,
            authenticator=access,
            authentication=RequestAuthenticator(settings, sessions, access, own),
            driver_cookies=DriverCookies(settings),
            announce=announce,
            notify=tell,
            replicas=replicas,
            batches=batches,
            refusals=refusals,
            sign_on=sign_on,
            turns=CustomerTurns(settings.customer_lock_max_waiting),
            outcome_waits=waits,
            ingest_memory=IngestMemoryBudget(settings),
            encryption=vault,
            issuing_keys=IssuingKeySigners(vault),
            query_limits=static_services.limits(settings),
            spool=Spool(settings.spool_bytes, settings.spool_directory),
            telemetry=Telemetry(batches, settings, tell),
            event_publisher=EventPublisher(QueueLimit(settings.webhook_max_pending, system("server"))),
            event_hub=hub,
            feed=feed,
            documents=static_services.documents(settings),
            readiness=readiness,
        )
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await refusals.write()
        await sign_on.close()
        await feed.close()
        await waits.close()
        if replicas is not None:
            await replicas.close()
        await other_cells.close()
        await own.close()
        await db.close()
