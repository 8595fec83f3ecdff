"""Housekeeping: periodic clean-up jobs, each run by one worker at a time within a time limit.

A job that fails or takes too long does not delay the others. Its result is stored in the table `housekeeping`. To add a
job, write `async def step(db, settings) -> None` in the package that owns the rows, and add a row to `STEPS`. The
function works in batches (`db.row_batches.run_in_batches`), and may be cancelled between any two of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import LiteralString

import structlog

from keyrack.api import idempotency, rate_limits
from keyrack.assignments import failure_backfill
from keyrack.auth import (
    access_tokens,
    browser_state,
    cache_invalidation,
    login_challenges,
    password_reset,
    sessions,
    usernames,
)
from keyrack.auth.sso import providers
from keyrack.changelog import retention
from keyrack.changelog.transparency import checkpoint_publisher, checkpoints
from keyrack.core.settings import Settings
from keyrack.db import partitions, search_text
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database, Row, Statements, is_interruption
from keyrack.db.replication import primary_heartbeat
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.drivers import links as driver_links
from keyrack.drivers import push_subscriptions
from keyrack.drivers import requests as driver_requests
from keyrack.drivers import sessions as driver_sessions
from keyrack.fleet import global_erasure, person_erasure, person_lookup
from keyrack.offline_keys import box_logs, status_list_slots
from keyrack.ops import text_normal_form
from keyrack.webhooks import cleanup

log = structlog.get_logger("keyrack.housekeeping")
seldom = ThrottledLogger("keyrack.housekeeping")

EVERY = 300  # seconds between two runs of a job
AGAIN = 30  # seconds until the next run of a job that failed or did not finish
MARGIN = 10  # seconds that the lease outlasts the time limit, so that the job ends before another worker may take it
MISSED = 3  # intervals without success after which a job is late, which raises an alert


@dataclass(frozen=True, slots=True)
class HousekeepingTask:
    """A periodic job: its name, its function, and its interval in seconds."""

    name: str
    run: Callable[[Database, Settings], Awaitable[object]]
    every: int = EVERY


UNFINISHED = "Not finished within {:g} seconds; it continues in the next run."

STEPS = (
    HousekeepingTask("history", partitions.maintain),
    HousekeepingTask("months of changes", retention.prune_partitions),
    HousekeepingTask("checkpoints", checkpoints.create_due_checkpoints, every=20),
    HousekeepingTask("copies of checkpoints", checkpoint_publisher.publish_checkpoints, every=20),
    HousekeepingTask("old checkpoints", checkpoints.prune_checkpoints, every=3_600),
    HousekeepingTask("old changes", retention.erase, every=3_600),
    HousekeepingTask("keys of boxes", status_list_slots.recycle_slots),
    HousekeepingTask("logs of boxes", box_logs.forget),
    HousekeepingTask("rate limits", rate_limits.forget),
    HousekeepingTask("changes of access", cache_invalidation.forget_changes),
    HousekeepingTask("normal forms of user names", usernames.MANAGERS.fill),
    HousekeepingTask("normal forms of persons", person_lookup.PERSONS.fill),
    HousekeepingTask("normal forms of domains", providers.normalise_domains),
    HousekeepingTask("codes of failed operations", failure_backfill.fill),
    HousekeepingTask("texts for searches", search_text.fill),
    HousekeepingTask("normal form of texts", text_normal_form.convert, every=3_600),
    HousekeepingTask("sessions", sessions.forget),
    HousekeepingTask("sessions of drivers", driver_sessions.forget),
    HousekeepingTask("links of drivers", driver_links.forget),
    HousekeepingTask("requests of drivers", driver_requests.forget),
    HousekeepingTask("changes for push messages", push_subscriptions.forget),
    HousekeepingTask("revocations", access_tokens.forget),
    HousekeepingTask("links of people", password_reset.forget),
    HousekeepingTask("steps of signing in", login_challenges.forget),
    HousekeepingTask("sign-ins under way", browser_state.forget),
    HousekeepingTask("erased people", person_erasure.finish, every=60),
    HousekeepingTask("people in no customer", global_erasure.erase_orphans),
    HousekeepingTask("idempotency keys", idempotency.forget),
    HousekeepingTask("deliveries", cleanup.deliveries),
    HousekeepingTask("operations", cleanup.operations),
    HousekeepingTask("removed webhooks", cleanup.removed_webhooks),
    HousekeepingTask("disabled webhooks", cleanup.disabled_webhooks),
    HousekeepingTask("pulled messages", cleanup.pulled_messages),
    HousekeepingTask("unused pull webhooks", cleanup.unused_webhooks),
    HousekeepingTask("heartbeats", primary_heartbeat.forget),
)

KNOW: LiteralString = "insert into housekeeping (step) select unnest($1::text[]) on conflict (step) do nothing"
TAKE: LiteralString = """
update housekeeping set held_until = now() + make_interval(secs => $2) where step = (
  select step from housekeeping
  where step = any($1::text[]) and due_at <= now() and (held_until is null or held_until < now())
  order by due_at, step limit 1 for update skip locked)
returning step, failures, last_good
"""
WENT_WELL: LiteralString = """
update housekeeping set held_until = null, due_at = now() + make_interval(secs => $2), seconds = $3, last_good = now(),
  failures = 0
where step = $1
"""
DID_NOT: LiteralString = """
update housekeeping set held_until = null, due_at = now() + make_interval(secs => $2), seconds = $3, last_error = $4,
  last_error_at = now(), failures = failures + 1
where step = $1
"""
# The jobs of this release, in the order of the table. A job is late if it has not succeeded for several intervals.
# A job without any success is due since a worker registered it; before that, it cannot be late
LIST: LiteralString = """
select s.step, h.last_good, h.seconds, coalesce(h.failures, 0) as failures, h.last_error, h.last_error_at,
  h.due_at, coalesce(
    h.last_good < now() - make_interval(secs => $3 * s.every),
    h.failures > 0 or h.due_at < now() - make_interval(secs => $3 * s.every),
    false
  ) as late
from unnest($1::text[], $2::integer[]) with ordinality s (step, every, place) left join housekeeping h using (step)
order by s.place
"""


async def status(statements: Statements) -> list[Row]:
    """The state of each job: a row with its last success, its last error, and whether it is late."""
    return await statements.fetch(LIST, [step.name for step in STEPS], [step.every for step in STEPS], MISSED)


class Housekeeping:
    """The housekeeping of one worker."""

    def __init__(self, db: Database, settings: Settings, steps: Sequence[HousekeepingTask] = STEPS) -> None:
        self._db = db
        self._settings = settings
        self._steps = {step.name: step for step in steps}

    async def run(self) -> None:
        """Run due jobs one after another, until cancelled."""
        acting.set(system("housekeeping"))
        while True:
            try:
                await self._db.execute(KNOW, list(self._steps))
                while await self.one():
                    pass
            except Exception as error:
                if not is_interruption(error):
                    raise
                seldom.warning("housekeeping interrupted, retrying", error=error)
            await asyncio.sleep(self._settings.worker_poll)

    async def one(self) -> bool:
        """Run the job that has been due for longest; False if none is due. Its errors are stored and logged."""
        limit = self._settings.housekeeping_seconds
        taken = await self._db.fetchrow(TAKE, list(self._steps), limit + MARGIN)
        if taken is None:
            return False
        step = self._steps[taken["step"]]
        begun = time.monotonic()
        wrong: str | None = None
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                await step.run(self._db, self._settings)
        except Exception as error:
            unfinished = isinstance(error, TimeoutError) and clock.expired()
            wrong = UNFINISHED.format(limit) if unfinished else repr(error)
        await self._keep(step, taken, time.monotonic() - begun, wrong)
        return True

    async def _keep(self, step: HousekeepingTask, taken: Row, seconds: float, wrong: str | None) -> None:
        """Store the result of a run, and log errors and recoveries."""
        fields = {"step": step.name, "seconds": round(seconds, 3), "last_success": taken["last_good"]}
        if wrong is None:
            await self._db.execute(WENT_WELL, step.name, step.every, seconds)
            if taken["failures"]:
                log.info("housekeeping task recovered", failures=taken["failures"], **fields)
            return
        await self._db.execute(DID_NOT, step.name, min(step.every, AGAIN), seconds, wrong)
        failures = taken["failures"] + 1
        log.error("housekeeping task failed", error=wrong, failures=failures, alert=failures >= MISSED, **fields)
