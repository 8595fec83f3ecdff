"""The sequencer: turns the outbox into numbered records of each customer's log, ordered and gapless.

The outbox is the table `change_inbox`. A change draws its number in the outbox's sequence while the changed row is
locked, so the order of that sequence respects every dependency. Nothing beyond the visibility watermark is numbered, so
no change can come before a numbered one. Any number of workers try; one of them sequences at a time, and each batch is
one transaction.

The notifications of `db.change_notifier` (channel `keyrack_live`) wake it. Every process sends them after its commits;
no trigger does. Changes without a notification are found within `KEYRACK_SEQUENCER_POLL_SECONDS`. It announces new
numbers by the topic `changes` of the same notifications (`NUMBERED`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from keyrack.changelog import access_baseline, access_history, personal_data
from keyrack.changelog.record_format import FIRST, SALT, Record, canonical, digest, encode, hash_of, loads
from keyrack.changelog.transparency import epochs, trust_anchors
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.visibility_watermark import IF_ALONE, VisibilityWatermark
from keyrack.core.metrics.catalog import CHANGES_SEQUENCED, SEQUENCING_DELAY
from keyrack.core.settings import Settings
from keyrack.db.audit_context import system
from keyrack.db.change_notifier import DELIVERED, NUMBERED, Notify
from keyrack.db.connection import Connection, Database, Row, is_interruption
from keyrack.db.named_parameters import compile_statement
from keyrack.db.partitions import month
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.db.worker_wakeup import DELIVER
from keyrack.webhooks.change_deliveries import NumberedChange, Publisher
from keyrack.webhooks.queue_limit import QueueLimit

seldom = ThrottledLogger("keyrack.sequencer")

SOON = 0.01  # seconds until the next batch after one with changes
WHOLE = 5.0  # seconds between two scans of the whole outbox; others begin after the last watermark

ANY: LiteralString = "select exists (select from change_inbox where seq > $1)"
# Reads after the lock, so that it does not see changes that the previous sequencer has numbered. The row locks make an
# erasure wait until these changes have their numbers.
READ: LiteralString = """
select seq, customer_id, at, kind, resource, resource_id, who::text, groups, before::text, after::text,
  (select clock_timestamp()) as now
from change_inbox where seq > $1 and seq <= $2 order by seq limit $3 for update
"""
BEGIN: LiteralString = """
insert into change_log (customer_id) select unnest($1::integer[]) on conflict (customer_id) do nothing
"""
LOGS: LiteralString = """
select l.customer_id, epoch, class, last_id, last_recorded_at, hash, tree, changes_days
from change_log l left join customer c on c.customer_id = l.customer_id
where l.customer_id = any($1) order by l.customer_id for update of l
"""
MAKE: LiteralString = "select make_changes($1)"
# Rows without personal members are moved between the tables unchanged
NUMBER = compile_statement("""
with numbered as materialized (
  select * from unnest(
    :seq::bigint[], :customer_id::integer[], :retention::smallint[], :change_id::bigint[], :recorded_at::timestamptz[],
    :record::bytea[], :who_salt::bytea[], :content_salt::bytea[], :person_salt::bytea[], :person::text[],
    :before::text[], :after::text[])
  n (seq, customer_id, class, change_id, recorded_at, record, who_salt, content_salt, person_salt, person, before,
     after)
), gone as (
  delete from change_inbox i using numbered n where i.seq = n.seq and i.customer_id = n.customer_id
  returning n.class, i.customer_id, n.change_id, n.recorded_at, i.at, i.kind, i.resource, i.resource_id, i.who,
    i.groups, i.group_sets, case when n.person is null then i.before else n.before::jsonb end as before,
    case when n.person is null then i.after else n.after::jsonb end as after, n.person::jsonb as person, n.who_salt,
    n.content_salt, n.person_salt, n.record
)
insert into change (class, customer_id, change_id, recorded_at, at, kind, resource, resource_id, who, groups,
  group_sets, before, after, person, who_salt, content_salt, person_salt, record)
select * from gone
""")
KEEP: LiteralString = """
update change_log l set last_id = n.last_id, last_recorded_at = n.recorded_at, hash = n.hash, tree = n.tree
from unnest($1::integer[], $2::bigint[], $3::timestamptz[], $4::bytea[], $5::bytea[])
  n (customer_id, last_id, recorded_at, hash, tree)
where l.customer_id = n.customer_id
"""


class SequencedChange(NamedTuple):
    """A numbered change: the parameters of `NUMBER` by name."""

    seq: int
    customer_id: int
    retention: int
    change_id: int
    recorded_at: datetime
    record: bytes
    who_salt: bytes
    content_salt: bytes | None
    person_salt: bytes | None
    person: str | None
    before: str | None
    after: str | None


@dataclass(slots=True)
class LogEnd:
    """The end of a customer's log, where changes are added."""

    customer: int
    epoch: UUID
    retention: int  # retention class
    last: int
    recorded_at: datetime
    hash: bytes
    tree: Tree

    @classmethod
    def of(cls, row: Row, retention: int, now: datetime) -> LogEnd:
        """The end in the table. Its time follows the database's clock, but never goes back."""
        recorded_at = max(now, row["last_recorded_at"] or now)
        return cls(
            row["customer_id"], row["epoch"], retention, row["last_id"], recorded_at, row["hash"] or FIRST,
            Tree.read(row["tree"]),
        )  # fmt: skip

    def add(self, row: Row) -> SequencedChange:
        """Number a change. Returns the parameters of `NUMBER` for it."""
        before, after = loads(row["before"]), loads(row["after"])
        person = personal_data.split_personal_data(row["resource"], before, after)
        content = None if before is None and after is None else {"before": before, "after": after}
        who_salt = secrets.token_bytes(SALT)
        content_salt = secrets.token_bytes(SALT) if content else None
        person_salt = secrets.token_bytes(SALT) if person else None
        self.last += 1
        record = encode(
            Record(
                self.customer, self.epoch, self.last, row["at"], self.recorded_at, row["kind"], row["resource"],
                row["resource_id"], row["groups"], self.hash,
                who=digest("who", who_salt, loads(row["who"])),
                content=digest("content", content_salt, content) if content_salt else None,
                person=digest("person", person_salt, person) if person_salt else None,
            )
        )  # fmt: skip
        self.hash = hash_of(record)
        self.tree.append(leaf_hash(record))
        parts = (_text(person), _text(before), _text(after)) if person else (None, None, None)
        return SequencedChange(
            row["seq"], self.customer, self.retention, self.last, self.recorded_at, record, who_salt, content_salt,
            person_salt, *parts,
        )  # fmt: skip


@dataclass(slots=True)
class Sequencer:
    """The sequencer of one worker."""

    db: Database
    settings: Settings
    notify: Notify
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _sequenced_to: int = epochs.BEFORE  # the outbox is empty up to here
    _full_scan_at: float = 0.0  # time of the next full scan: after a failover the sequence may be lower
    _months: set[date] = field(default_factory=set[date])  # months whose partitions exist
    _has_baseline: bool = False  # whether every customer has an access baseline
    _publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self._publisher = Publisher(QueueLimit(self.settings.webhook_max_pending, system("worker")))

    def wake(self) -> None:
        """Request a batch: there may be new changes."""
        self._wake.set()

    async def run(self) -> None:
        """Number new changes until cancelled."""
        watermark, pause = VisibilityWatermark(self.db), SOON
        while True:
            try:
                pause = SOON if await self.sequence(watermark) else min(2 * pause, self.settings.sequencer_poll_seconds)
            except Exception as error:
                if not is_interruption(error):
                    raise
                seldom.warning("sequencing interrupted, retrying", error=error)
                pause = self.settings.sequencer_poll_seconds
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()

    async def sequence(self, watermark: VisibilityWatermark) -> int:
        """Number the changes up to the next watermark. Returns their count; 0 if another worker does it."""
        self._has_baseline = self._has_baseline or await access_baseline.begin_some(self.db)
        if (now := time.monotonic()) >= self._full_scan_at:
            self._sequenced_to, self._full_scan_at = epochs.BEFORE, now + WHOLE
            await self._check_epochs()
        if not await self.db.reading().fetchval(ANY, self._sequenced_to):
            return 0
        last = await watermark.advance()
        numbered = 0
        while (count := await self._sequence_batch(last)) is not None:
            numbered += count
            if count < self.settings.sequencer_batch_rows:
                self._sequenced_to = last
                break
        return numbered

    async def _check_epochs(self) -> None:
        """Check for lost numbers, even if no change waits."""
        async with self.db.transaction() as connection:
            if await connection.fetchval(IF_ALONE):
                await epochs.check_epochs(connection)

    async def _sequence_batch(self, last: int) -> int | None:
        """Number the first changes up to a watermark in one transaction; None if another worker does it."""
        async with self.db.transaction() as connection:
            if not await connection.fetchval(IF_ALONE):
                return None
            await connection.lift_timeouts()  # a slow batch would be as slow at a retry
            if await epochs.check_epochs(connection):
                self._sequenced_to = epochs.BEFORE
            rows = await connection.fetch(READ, self._sequenced_to, last, self.settings.sequencer_batch_rows)
            logs, webhook_customers = await self._number(connection, rows) if rows else ([], set[int]())
        self._months.update(month(log.recorded_at) for log in logs)
        CHANGES_SEQUENCED.of().add(len(rows))
        for row in rows:
            SEQUENCING_DELAY.of().observe(max(0.0, (row["now"] - row["at"]).total_seconds()))
        for log in logs:
            self.notify(log.customer, NUMBERED | DELIVERED if log.customer in webhook_customers else NUMBERED)
        if webhook_customers:
            await self.db.execute(DELIVER)
        return len(rows)

    async def _number(self, connection: Connection, rows: Sequence[Row]) -> tuple[list[LogEnd], set[int]]:
        """Number these rows. Returns the logs, and the customers with new webhook deliveries."""
        customers = sorted({row["customer_id"] for row in rows})
        logs = await _logs(connection, customers, rows[0]["now"], self.settings.changelog_retention_days)
        for missing in sorted({month(log.recorded_at) for log in logs.values()} - self._months):
            await connection.execute(MAKE, missing)
        await access_history.record_periods(connection, rows, {log.customer: log.recorded_at for log in logs.values()})
        numbered = [logs[row["customer_id"]].add(row) for row in rows]
        columns = dict(zip(SequencedChange._fields, map(list, zip(*numbered, strict=True)), strict=True))
        await connection.execute(NUMBER.sql, *NUMBER.arguments(**columns))
        ends = [(log.customer, log.last, log.recorded_at, log.hash, log.tree.stored) for log in logs.values()]
        await connection.execute(KEEP, *map(list, zip(*ends, strict=True)))
        webhook_customers = await self._publisher.publish(connection, map(_numbered_change, rows, numbered))
        return list(logs.values()), webhook_customers


async def _logs(connection: Connection, customers: list[int], now: datetime, days: int) -> dict[int, LogEnd]:
    """The ends of these customers' logs, locked. A log begins with its first change."""
    rows = await connection.fetch(LOGS, customers)
    if len(rows) < len(customers):
        await connection.execute(BEGIN, sorted(set(customers) - {row["customer_id"] for row in rows}))
        rows = await connection.fetch(LOGS, customers)
    classes = await trust_anchors.advance_anchor(connection, rows, now, days)
    return {row["customer_id"]: LogEnd.of(row, classes[row["customer_id"]], now) for row in rows}


def _numbered_change(row: Row, numbered: SequencedChange) -> NumberedChange:
    """The publisher's input for one numbered row of the outbox."""
    return NumberedChange(
        numbered.customer_id, numbered.retention, numbered.change_id, numbered.recorded_at, row["kind"], row["resource"]
    )


def _text(value: Any) -> str | None:
    return None if value is None else canonical(value).decode()
