"""Export of a whole customer to files: one snapshot, row by row, complete or not at all."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, LiteralString

from keyrack import __version__
from keyrack.changelog.column_decisions import unknown_columns
from keyrack.core.text import no_formula
from keyrack.db.connection import Connection
from keyrack.ops.transfer.manifest import CustomerRecord, ExportFile, Manifest
from keyrack.ops.transfer.record_types import KINDS, RecordType

PIECE = 1_000  # rows per fetch

Progress = Callable[[str, int, int], None]  # kind, rows written, total rows

SNAPSHOT: LiteralString = "set transaction isolation level repeatable read, read only"
OWNER: LiteralString = """
select customer_id as id, name, to_json(created_at)#>>'{}' as created_at, history_days, keeps_positions,
  changes_days, driver_phone, driver_shows_place, driver_extension_hours,
  bookings, bookings_enforced, booking_gap,
  coalesce((select applied from customer_hold h where h.customer_id = c.customer_id), 0) as applied,
  coalesce((select last_id from event_counter e where e.customer_id = c.customer_id), 0) as last_event
from customer c where customer_id = $1
"""
REVISION: LiteralString = "select version_num from alembic_version"
CLOSE: LiteralString = "close listed"
# Data that no file contains: secrets, and data that do not belong to the customer alone
LEFT: LiteralString = """
select (select count(*) from customer_user join person using (user_id)
        where customer_id = $1 and password_hash is not null) as passwords,
  (select count(*) from webhook where customer_id = $1) as "webhookSecrets",
  (select count(*) from device_key where customer_id = $1 and revoked_at is null) as "deviceKeys",
  (select count(*) from sdk_key where customer_id = $1 and revoked_at is null) as "sdkKeys",
  (select count(distinct product_id) from box_epoch where customer_id = $1) as boxes,
  (select count(*) from app_device where customer_id = $1) as phones,
  (select count(*) from customer_user join driver_account using (user_id) where customer_id = $1) as "driverAccounts",
  (select count(*) from manager_customer where customer_id = $1) as managers
"""


UNDECIDED = (
    "This release does not know the columns {columns} of the database, which a newer release has added. The export "
    "would lose their values. Export with the newer release."
)


class NotExported(Exception):
    """Nothing was written; the text has the reason."""


async def export(sql: Connection, customer: int, target: Path, progress: Progress) -> Manifest:
    """Export the customer to `target` as one snapshot, in a transaction without earlier statements.

    The files are written to a directory beside `target`, which is renamed when they are complete and on disk. Raises
    `NotExported`, `OSError`.
    """
    await sql.execute(SNAPSHOT)
    owner = await sql.fetchrow(OWNER, customer)
    if owner is None:
        raise NotExported(f"There is no customer {customer}.")
    if (columns := await unknown_columns(sql)) is not None:
        raise NotExported(UNDECIDED.format(columns=columns))
    _check_free(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    partial.mkdir(mode=0o700, parents=True)
    try:
        files = _Files(partial)
        for kind in KINDS:
            await files.write(sql, customer, kind, progress)
        left = await sql.fetchrow(LEFT, customer)
        manifest = Manifest(
            release=__version__,
            revision=await sql.fetchval(REVISION),
            moment=datetime.now(UTC).isoformat(),
            customer=CustomerRecord(**owner),
            files=files.written,
            months=sorted(files.months),
            left=dict(left or {}),
        )
        await asyncio.to_thread(_finish, manifest, partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return manifest


def _check_free(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NotExported(f"{target} already exists, and is not an empty directory. Choose another one.")


def _finish(manifest: Manifest, partial: Path, target: Path) -> None:
    """Flush all files to disk, and rename the directory."""
    manifest.write(partial)
    for path in (*partial.iterdir(), partial):
        place = os.open(path, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
    partial.rename(target)  # also replaces an empty directory


class _Files:
    """The files of one export."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.written: list[ExportFile] = []
        self.months: set[str] = set()

    async def write(self, sql: Connection, customer: int, kind: RecordType, progress: Progress) -> None:
        """Write the two files of a kind."""
        there: int = 0 if kind.has_months else await sql.fetchval(kind.count, customer)
        progress(kind.name, 0, there)
        lines, sheet = _Out(self._directory / f"{kind.name}.jsonl"), _Out(self._directory / f"{kind.name}.csv")
        writer = csv.writer(sheet, lineterminator="\r\n")
        writer.writerow(kind.members)
        count = 0
        await sql.declare(kind.select, customer)
        while rows := await sql.fetch_batch(PIECE):
            for row in rows:
                value: dict[str, Any] = json.loads(row[0])
                lines.write(row[0] + "\n")
                writer.writerow([_cell(cell) for cell in value.values()])
                if kind.has_months:
                    self.months.add(value["at"][: len("2026-01")])
            count += len(rows)
            progress(kind.name, count, max(there, count))
        await sql.execute(CLOSE)
        self.written += [lines.closed(count), sheet.closed(count)]


class _Out:
    """A file that is written once, with its checksum."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, text: str) -> int:
        piece = text.encode()
        self._hash.update(piece)
        self._bytes += len(piece)
        return self._file.write(piece)

    def closed(self, rows: int) -> ExportFile:
        self._file.close()
        return ExportFile(name=self._path.name, rows=rows, bytes=self._bytes, sha256=self._hash.hexdigest())


def _cell(value: Any) -> str | int | float:
    """A value for a spreadsheet: no text is a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    return no_formula(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
