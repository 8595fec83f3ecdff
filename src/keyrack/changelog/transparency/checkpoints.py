"""Signs checkpoints of logs that have grown, and thins out old ones.

One worker at a time signs, and only committed records. It signs a log's tree as read from its records, if the tree
extends what was signed before. A log that has shrunk, or differs from its newest checkpoint, was tampered with. It is
rejected, and gets no checkpoint as long as it does not match.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString
from uuid import UUID

import structlog

from keyrack.api.schema.request_body import format_timestamp
from keyrack.changelog.transparency import checkpoint_keys, tree_builder
from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.changelog.transparency.export_verifier import name_of
from keyrack.changelog.transparency.signed_notes import Checkpoint, NotANote, Note, NoteNotVerified, signed
from keyrack.changelog.transparency.tree_builder import PendingTree
from keyrack.core.metrics.catalog import CHECKPOINTS
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, Statements
from keyrack.db.row_batches import run_in_batches
from keyrack.db.worker_wakeup import DELIVER
from keyrack.webhooks.change_deliveries import publish_checkpoints

log = structlog.get_logger("keyrack.checkpoints")

ALONE: LiteralString = "select pg_try_advisory_xact_lock(7260928)"
IN_TURN: LiteralString = "select pg_advisory_xact_lock(7260928)"
INSERT: LiteralString = """
insert into change_checkpoint (customer_id, epoch, size, root, at, note)
select * from unnest($1::integer[], $2::uuid[], $3::bigint[], $4::bytea[], $5::timestamptz[], $6::text[])
on conflict (customer_id, epoch, size) do nothing
"""
SIGNED: LiteralString = """
update change_tree t set signed = s.size
from unnest($1::integer[], $2::uuid[], $3::bigint[]) s (customer_id, epoch, size)
where t.customer_id = s.customer_id and t.epoch = s.epoch
"""
REFUSED: LiteralString = """
select customer_id, refused from change_tree where refused is not null order by refused_at, customer_id limit $1
"""
NEWEST: LiteralString = """
select c.customer_id, c.epoch, c.size, c.root, c.at, c.note
from change_log l join change_checkpoint c on c.customer_id = l.customer_id and c.epoch = l.epoch
where l.customer_id = $1 order by c.size desc limit 1
"""
ALL: LiteralString = """
select c.customer_id, c.epoch, c.size, c.root, c.at, c.note
from change_checkpoint c where c.customer_id = $1 and c.epoch = $2 order by c.size
"""
# Deletes all but a log's last checkpoint of each day before $1, and marks the rest, which it skips from then on
THIN: LiteralString = """
with old as materialized (
  select customer_id, epoch, size, at from change_checkpoint
  where not is_of_day and at < $1 order by at limit $2
), gone as (
  delete from change_checkpoint c using old s
  where c.customer_id = s.customer_id and c.epoch = s.epoch and c.size = s.size and exists (
    select from change_checkpoint o
    where o.customer_id = s.customer_id and o.epoch = s.epoch and o.size > s.size
      and (o.at at time zone 'UTC')::date = (s.at at time zone 'UTC')::date)
  returning c.customer_id, c.epoch, c.size
), kept as (
  update change_checkpoint c set is_of_day = true from old s
  where c.customer_id = s.customer_id and c.epoch = s.epoch and c.size = s.size and not exists (
    select from gone g where g.customer_id = s.customer_id and g.epoch = s.epoch and g.size = s.size)
)
select count(*)::integer from old
"""
# Deletes the checkpoints whose records are all in dropped months, except the last of them, which covers all of these
FORGET: LiteralString = """
with over as materialized (
  select l.customer_id, l.epoch, c.size from change_log l cross join lateral (
    select size from change_checkpoint c
    where c.customer_id = l.customer_id and c.epoch = l.epoch
      and c.size <= l.oldest_id - l.first_id
    order by c.size desc limit 1) c
  where l.oldest_id > l.first_id
), gone as (
  delete from change_checkpoint c using over o
  where c.customer_id = o.customer_id and c.epoch = o.epoch and c.size < o.size
)
select 1
"""
SHOWN = 3  # rejected logs that a message names


class LogRefused(Exception):
    """Logs that contradict their checkpoints; the text names the first ones."""


@dataclass(frozen=True, slots=True)
class CreatedCheckpoint:
    """A signed checkpoint of a log, as `change_checkpoint` stores it."""

    customer: int
    epoch: UUID
    size: int
    root: bytes
    at: datetime
    note: str

    @classmethod
    def of(cls, row: Row) -> CreatedCheckpoint:
        return cls(row["customer_id"], row["epoch"], row["size"], row["root"], row["at"], row["note"])

    def as_json(self) -> dict[str, object]:
        """The checkpoint as JSON for the API and webhooks."""
        return {
            "customerId": self.customer, "epoch": str(self.epoch), "size": self.size,
            "root": base64.b64encode(self.root).decode(), "time": format_timestamp(self.at), "note": self.note,
        }  # fmt: skip


async def newest(statements: Statements, customer: int) -> CreatedCheckpoint | None:
    """The newest checkpoint of a log; None without any."""
    row = await statements.fetchrow(NEWEST, customer)
    return None if row is None else CreatedCheckpoint.of(row)


async def list_checkpoints(statements: Statements, customer: int, epoch: UUID) -> list[CreatedCheckpoint]:
    """The stored checkpoints of an epoch of a log, the oldest first."""
    return [CreatedCheckpoint.of(row) for row in await statements.fetch(ALL, customer, epoch)]


async def create_due_checkpoints(db: Database, settings: Settings) -> None:
    """Create the checkpoints that are due. A housekeeping step, which continues an interrupted one.

    Raises `CheckpointKeyError` if there is no signing key, or `LogRefused`.
    """
    trouble: CheckpointKeyError | None = None
    secrets = list[bytes]()
    try:
        secrets = checkpoint_keys.needed(settings)
    except CheckpointKeyError as error:  # the trees still grow
        trouble = error
    behind: int | None = -1
    while behind is not None:
        async with db.transaction() as sql:
            if not await sql.fetchval(ALONE):
                return
            behind, _ = await _some(sql, settings, secrets, behind, settings.checkpoint_seconds)
    if refused := await db.fetch(REFUSED, SHOWN):
        named = "; ".join(f"customer {row['customer_id']}: {row['refused']}" for row in refused)
        raise LogRefused(f"Logs do not match their records or checkpoints, and get no new checkpoints: {named}.")
    if trouble is not None:
        raise trouble


async def make(sql: Connection, settings: Settings, customer: int) -> CreatedCheckpoint | None:
    """The newest checkpoint of a log, created now if the log has grown; None without a log.

    It runs in the caller's transaction and reads the log in batches. Raises as `create_due_checkpoints` does.
    """
    secrets = checkpoint_keys.needed(settings)
    await sql.execute(IN_TURN)
    while True:
        _, dealt = await _some(sql, settings, secrets, customer - 1, 0, customer)
        for pending_tree in dealt:
            if pending_tree.error is not None:
                raise LogRefused(f"The log of customer {customer} gets no checkpoint: {pending_tree.error}.")
        if all(pending_tree.is_complete for pending_tree in dealt):
            return await newest(sql, customer)


async def prune_checkpoints(db: Database, settings: Settings) -> None:
    """Delete old checkpoints: all but the last of a day, and those of dropped months but one.

    A housekeeping step.
    """
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    await run_in_batches(db, settings.housekeeping_rows, THIN, today - timedelta(days=settings.checkpoint_days))
    await db.execute(FORGET)


async def _some(
    sql: Connection, settings: Settings, secrets: Sequence[bytes], behind: int, seconds: float, only: int | None = None
) -> tuple[int | None, list[PendingTree]]:
    """Process the next logs. Returns the customer to continue after, or None at the end, and the logs."""
    logs = await tree_builder.trees_due(sql, behind, seconds, signs=bool(secrets), only=only)
    for item in logs:
        item.error = item.error or _forged(item, secrets, settings)
    dealt = await tree_builder.extend_trees(sql, logs)
    for item in dealt:
        if item.error is not None and not item.is_known:
            log.critical(
                "changelog does not match its checkpoint", alert=True,
                customer=item.customer, epoch=str(item.epoch), reason=item.error,
            )  # fmt: skip
    if made := [_signed(item, secrets, settings) for item in dealt if secrets and item.is_complete and item.tree.size]:
        rows = [(item.customer, item.epoch, item.size, item.root, item.at, item.note) for item in made]
        await sql.execute(INSERT, *map(list, zip(*rows, strict=True)))
        await sql.execute(SIGNED, *map(list, zip(*[row[:3] for row in rows], strict=True)))
        if await publish_checkpoints(
            sql, {(item.customer, f"{item.epoch}/{item.size}"): item.as_json() for item in made}
        ):
            await sql.execute(DELIVER)
        CHECKPOINTS.of().add(len(made))
    if not dealt:
        return None, []
    last = dealt[-1]
    return (last.customer if last.error or last.is_complete else last.customer - 1), dealt


def _signed(pending_tree: PendingTree, secrets: Sequence[bytes], settings: Settings) -> CreatedCheckpoint:
    """The signed checkpoint of a log's current tree."""
    server, at = checkpoint_keys.server(settings), pending_tree.now.replace(microsecond=0)
    origin = f"{server}/{name_of(pending_tree.customer, pending_tree.epoch)}"
    text = str(Checkpoint(origin, pending_tree.tree.size, pending_tree.tree.root))
    note = signed(text, *checkpoint_keys.signers(secrets, origin, server), at=int(at.timestamp()))
    return CreatedCheckpoint(
        pending_tree.customer,
        pending_tree.epoch,
        pending_tree.tree.size,
        pending_tree.tree.root,
        at,
        bytes(note).decode(),
    )


def _forged(pending_tree: PendingTree, secrets: Sequence[bytes], settings: Settings) -> str | None:
    """The error of a log's newest stored checkpoint, if it is not what was signed.

    A checkpoint that another key signed is accepted, because the key may have been replaced.
    """
    if pending_tree.note is None or not secrets:
        return None
    try:
        note = Note.read(pending_tree.note.encode())
        said = Checkpoint.read(note.text)
        ours = [
            signer.key for signer in checkpoint_keys.signers(secrets, said.origin, checkpoint_keys.server(settings))
        ]
        ids = {signature.id for signature in note.signatures}
        if own := [key for key in ours if key.id in ids]:
            note.verify(own)
        if (said.size, said.root) == (pending_tree.checkpoint_size, pending_tree.checkpoint_root):
            return None
    except (NotANote, NoteNotVerified):
        pass
    return f"its newest checkpoint, of {pending_tree.checkpoint_size} records, is not what was signed"
