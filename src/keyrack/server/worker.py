"""The worker: background tasks that the database wakes, with a clean stop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import asyncpg
import structlog

from keyrack.assignments.scheduler import OperationScheduler
from keyrack.changelog.sequencer import SOON, Sequencer
from keyrack.core.background_tasks import supervise
from keyrack.core.settings import Settings
from keyrack.db import worker_wakeup
from keyrack.db.audit_context import acting, system
from keyrack.db.change_notifier import APPLIED, CHANNEL, ChangeNotifier
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.notification_listener import NotificationListener
from keyrack.db.other_cells import OtherCells
from keyrack.db.replication.primary_heartbeat import Heartbeat
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.drivers import mails as driver_mails
from keyrack.fleet.person_changes import PersonChangeDispatcher
from keyrack.ops.housekeeping import Housekeeping

log = structlog.get_logger("keyrack.worker")
seldom = ThrottledLogger("keyrack.worker")

# A worker repeats some statements, each of which finds its rows by an index. Planning each time would take longer than
# the execution. A plan from the time when a table was empty must not read the whole table later
PARAMETERS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
GRACE = 2.5  # seconds for running deliveries at a stop; the total stays below a parent's timeout


async def connect(dsn: str, settings: Settings) -> Database:
    """The connections of a worker. Raises `Unavailable`."""
    return await Database.connect(dsn, settings, application="keyrack worker", parameters=PARAMETERS)


class WakeupEvent:
    """Wakes one sleeper for each ring. A ring without a sleeper is kept for the next one."""

    def __init__(self) -> None:
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._rung = False

    def ring(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return
        self._rung = True

    async def sleep(self, seconds: float | None) -> None:
        """Wait for a ring, or for the timeout."""
        if self._rung:
            self._rung = False
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await sleeper


class Worker:
    """A worker, which processes several customers at a time.

    Any number of workers share the work through the database alone.
    """

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._bell = WakeupEvent()
        self._stopping = asyncio.Event()
        self._notify = ChangeNotifier(db)
        self._numbered = ChangeNotifier(db, SOON)  # readers that follow the change log wait for this alone
        self._numbering = Sequencer(db, settings, self._numbered)
        heard = {
            "keyrack_work": self._bell.ring,
            "keyrack_deliver": self._on_deliver,
            CHANNEL: self._numbering.wake,
        }
        self._listener = NotificationListener(db.connector.direct(settings), heard, self._on_all)
        self._heartbeat = Heartbeat(db.connector, settings, "work")
        self._rounds = OperationScheduler(db, self._bell.ring, self._look_again)
        self._courier: Any = None
        self._call = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`. Running work is finished first, or given back."""
        acting.set(system("worker"))
        from keyrack.webhooks.delivery import DeliveryWorker  # imports an HTTP client that only workers need

        vault = await open_vault(self._db, self._settings)
        self._courier = courier = DeliveryWorker(self._db, self._settings, vault, self._call.set, self._notify)
        housekeeping = Housekeeping(self._db, self._settings)
        helpers = [
            self._start("notification listener", self._listener.run),
            self._start("heartbeat", self._heartbeat.run),
            self._start("housekeeping", housekeeping.run),
            self._start("sequencer", self._numbering.run),
            self._start("worker wakeup", self._call_others),
            self._start("change notifier", self._notify.run),
            self._start("sequence notifier", self._numbered.run),
        ]
        if self._settings.sends_mail:
            from keyrack.auth.mail.outbox import MailDispatcher  # imports an SMTP client that only workers need

            mails = MailDispatcher(self._db, self._settings, {driver_mails.AUDIENCE: driver_mails.write})
            helpers.append(self._start("mail delivery", mails.run))
        if self._settings.push:
            from keyrack.drivers.push_dispatcher import PushDispatcher  # imports the client of webhooks

            pushes = PushDispatcher(self._db, self._settings, vault)
            helpers.append(self._start("push messages", pushes.run))
        other_cells = OtherCells(self._settings)
        if other_cells.numbers:
            persons = PersonChangeDispatcher(self._db, self._settings, other_cells)
            helpers.append(self._start("changes of persons", persons.run))
        delivering = self._start("webhook delivery", lambda: courier.run(GRACE))
        concurrency = self._settings.worker_concurrency
        loops = [self._start("operations", partial(self._loop, polls=number == 0)) for number in range(concurrency)]
        try:
            await self._stopping.wait()
            courier.stop()
            for _ in loops:
                self._bell.ring()
            await asyncio.wait([delivering, *loops], timeout=2 * GRACE)
        finally:
            for task in (*helpers, delivering, *loops):
                task.cancel()
            await asyncio.gather(*helpers, delivering, *loops, return_exceptions=True)
            await other_cells.close()

    def _start(self, name: str, loop: Callable[[], Awaitable[object]]) -> asyncio.Task[None]:
        return asyncio.create_task(supervise(name, loop, self._stopping.is_set))

    async def stop(self) -> None:
        """Ask the tasks to end after their present work."""
        self._stopping.set()

    async def _loop(self, *, polls: bool) -> None:
        while not self._stopping.is_set():
            try:
                done = await self._rounds.run()
                if done is not None:
                    for customer in done.customers:
                        self._notify(customer, APPLIED)
                    if done.deliveries:
                        self._on_deliver()
                    continue
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                seldom.warning("worker interrupted, retrying", error=error)
                await asyncio.sleep(0.5)
            except Exception:
                log.exception("worker run failed")
                await asyncio.sleep(2)
            await self._bell.sleep(self._settings.worker_poll if polls else None)

    def _look_again(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._bell.ring)

    def _on_all(self) -> None:
        self._bell.ring()
        self._on_deliver()
        self._numbering.wake()

    def _on_deliver(self) -> None:
        if self._courier is not None:
            self._courier.wake()

    async def _call_others(self) -> None:
        """Wake other workers if this one has too many deliveries."""
        while True:
            await self._call.wait()
            self._call.clear()
            with suppress(*UNREACHABLE, asyncpg.PostgresError):
                await self._db.execute(worker_wakeup.DELIVER)
