"""Import of an export: a new customer in one transaction, checked against the row counts of the manifest."""

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
from keyrack.db.named_parameters import compile_statement
from keyrack.ops.transfer import manifest as manifests
from keyrack.ops.transfer.export_files import Progress
from keyrack.ops.transfer.manifest import NAME, ExportIncomplete, Manifest
from keyrack.ops.transfer.record_types import KINDS, WEBHOOKS
from keyrack.ops.transfer.row_writer import write
from keyrack.webhooks.subscriptions import new_signing_secret

PIECE = 1_000  # rows per statement
DISABLED = "imported: its receiver does not know the new signing secret yet"

ALONE: LiteralString = "select pg_advisory_xact_lock(7260923)"  # serialises imports of the same export
TAKEN: LiteralString = "select customer_id, began_at from customer_import where source = $1"
CUSTOMER = compile_statement("""
insert into customer (name, created_at, history_days, keeps_positions, changes_days, driver_phone, driver_shows_place,
  driver_extension_hours, bookings, bookings_enforced, booking_gap)
values (:name, :created_at::text::timestamptz, :history_days, :keeps_positions, :changes_days, :driver_phone,
  :driver_shows_place, :driver_extension_hours, :bookings, :bookings_enforced, :booking_gap)
returning customer_id
""")
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
    """The imported rows do not match the manifest; the import is rolled back."""


async def import_export(
    db: Database, sql: Connection, vault: Encryption, directory: Path, name: str | None, progress: Progress
) -> tuple[int, Manifest, dict[str, int]]:
    """Import an export in the transaction of `sql`. Returns the new customer, the manifest, and the rows by kind.

    Raises `ExportIncomplete` before anything is written if files are damaged, or if this database has already imported
    them. Raises `ImportMismatch` if rows are missing at the end.
    """
    manifest = manifests.read(directory)
    source = f"sha256:{manifests.digest(directory / NAME)}"
    await sql.execute(ALONE)
    if (taken := await sql.fetchrow(TAKEN, source)) is not None:
        raise ExportIncomplete(
            f"This export was already imported as customer {taken['customer_id']}, on {taken['began_at']:%Y-%m-%d}."
        )
    # On other connections: this transaction would hold the lock of creating months until the import ends
    await partitions.make(db, [date.fromisoformat(f"{month}-01") for month in manifest.months])
    owner = manifest.customer
    customer: int = await sql.fetchval(
        CUSTOMER.sql,
        *CUSTOMER.arguments(
            name=name or owner.name,
            created_at=owner.created_at,
            history_days=owner.history_days,
            keeps_positions=owner.keeps_positions,
            changes_days=owner.changes_days,
            driver_phone=owner.driver_phone,
            driver_shows_place=owner.driver_shows_place,
            driver_extension_hours=owner.driver_extension_hours,
            bookings=owner.bookings,
            bookings_enforced=owner.bookings_enforced,
            booking_gap=owner.booking_gap,
        ),
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
            message = f"The export has {there:,} {kind.name}, but {count:,} were written. Nothing was imported."
            raise ImportMismatch(message)
        counts[kind.name] = count
    return customer, manifest, counts


def _pieces(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while piece := list(islice(rows, PIECE)):
        yield piece


async def _write_webhooks(sql: Connection, vault: Encryption, customer: int, rows: list[dict[str, Any]]) -> None:
    """Write webhooks, disabled, with new signing secrets: an export has none, and receivers need the new ones."""
    for row in rows:
        sealed = await vault.seal(sql, new_signing_secret(), SIGNING_SECRET, customer, row["id"])
        await sql.execute(WEBHOOK, customer, [row], DISABLED, sealed)
