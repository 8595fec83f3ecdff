"""In charge of taking an export in: a customer of its own, in one transaction, compared with what the files say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, LiteralString

from keyrack.db import partitions
from keyrack.db.connection import Connection, Database
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import SIGNING_SECRET
from keyrack.ops.transfer import manifest as manifests
from keyrack.ops.transfer.export_files import Progress
from keyrack.ops.transfer.manifest import NAME, ExportIncomplete, Manifest
from keyrack.ops.transfer.record_types import KINDS, WEBHOOKS
from keyrack.ops.transfer.row_writer import write
from keyrack.webhooks.subscriptions import new_signing_secret

PIECE = 1_000  # rows that one statement writes
DISABLED = "imported: its receiver does not know the new signing secret yet"

ALONE: LiteralString = "select pg_advisory_xact_lock(7260923)"  # two imports of the same export at once
TAKEN: LiteralString = "select customer_id, began_at from customer_import where source = $1"
CUSTOMER: LiteralString = """
insert into customer (name, created_at, history_days, keeps_positions, changes_days)
values ($1, $2::text::timestamptz, $3, $4, $5)
returning customer_id
"""
COUNTERS: LiteralString = """
with hold as (update customer_hold set applied = $2 where customer_id = $1)
update event_counter set last_id = $3 where customer_id = $1
"""
SOURCE: LiteralString = "insert into customer_import (customer_id, source, ended_at) values ($1, $2, now())"
# Disabled, with a new signing secret: receivers do not know it yet
WEBHOOK: LiteralString = WEBHOOKS.insert_into(
    "webhook", {"is_enabled": "false", "disabled_reason": "$3", "signing_secret": "$4"}
)


class ImportMismatch(Exception):
    """What was taken in is not what the files say; nothing of it stays."""


async def import_export(
    db: Database, sql: Connection, vault: Encryption, directory: Path, name: str | None, progress: Progress
) -> tuple[int, Manifest, dict[str, int]]:
    """Take an export in, in the transaction of `sql`: the new customer, the manifest, and the rows of each kind.

    Raises `ExportIncomplete` before anything is written: the files are not whole, or this database has taken them in
    before. Raises `ImportMismatch` where rows are missing in the end.
    """
    manifest = manifests.read(directory)
    source = f"sha256:{manifests.digest(directory / NAME)}"
    await sql.execute(ALONE)
    if (taken := await sql.fetchrow(TAKEN, source)) is not None:
        raise ExportIncomplete(
            f"This export is customer {taken['customer_id']} already, since {taken['began_at']:%Y-%m-%d}."
        )
    # By others' connections: the lock under which months are made would last as long as the import
    await partitions.make(db, [date.fromisoformat(f"{month}-01") for month in manifest.months])
    owner = manifest.customer
    customer: int = await sql.fetchval(
        CUSTOMER, name or owner.name, owner.created_at, owner.history_days, owner.keeps_positions, owner.changes_days
    )
    await sql.execute(SOURCE, customer, source)
    await sql.execute(COUNTERS, customer, owner.applied, owner.last_event)
    counts: dict[str, int] = {}
    for kind in KINDS:
        there = manifest.rows_of(kind.name)
        progress(kind.name, 0, there)
        done = 0
        for rows in _pieces(manifests.rows(directory, kind.name)):
            written = await write(sql, customer, kind, rows)
            if kind is WEBHOOKS:
                await _write_webhooks(sql, vault, customer, written)
            done += len(rows)
            progress(kind.name, done, there)
        count: int = done if kind.has_months else await sql.fetchval(kind.count, customer)
        if count != there:
            message = f"The export has {there:,} {kind.name}, the customer would have {count:,}. Nothing was imported."
            raise ImportMismatch(message)
        counts[kind.name] = count
    return customer, manifest, counts


def _pieces(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while piece := list(islice(rows, PIECE)):
        yield piece


async def _write_webhooks(sql: Connection, vault: Encryption, customer: int, rows: list[dict[str, Any]]) -> None:
    """Webhooks with new signing secrets. They are disabled until their receivers know these: an export has none."""
    for row in rows:
        sealed = await vault.seal(sql, new_signing_secret(), SIGNING_SECRET, customer, row["id"])
        await sql.execute(WEBHOOK, customer, [row], DISABLED, sealed)
