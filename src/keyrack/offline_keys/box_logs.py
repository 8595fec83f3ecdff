"""In charge of the logs of boxes as they come home: whose an entry is, where it has its place, what is wrong with it.

Entries come in any order, once or often, by whichever phone. What they tell goes on in the order of their numbers: up
to the first that is missing and that the box may still have (docs/keys.md, "The log of a box").
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import structlog

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.row_batches import run_in_batches
from keyrack.offline_keys import cose, enrolment
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.issuing_keys import IssuingKeySigner, IssuingKeySigners, box_name, issuer, public
from keyrack.offline_keys.log_chain import Report, Walk, hash_of
from keyrack.offline_keys.message_fields import ENTRY, RECEIPT
from keyrack.offline_keys.opening_events import LAST_TIME, publish_openings
from keyrack.offline_keys.p256 import verify
from keyrack.offline_keys.timestamps import now

log = structlog.get_logger("keyrack.box_logs")

NAME = re.compile(r"box:([1-9]\d{0,9}):([1-9]\d{0,9})").fullmatch
LOGGED = 10  # reports of one delivery that the server's log has one by one
AT_ONCE = 500  # entries that are told in one go
NO_BOX = "There is no box of that name and epoch."
FORGED = "The box has not signed this."
UNREADABLE = "This is no entry: {code}."

BOXES: LiteralString = """
select product_id, epoch, public_key, is_pending from box_epoch where customer_id = $1 and (product_id, epoch) in (
  select * from unnest($2::integer[], $3::integer[]))
"""
LOCK: LiteralString = """
select up_to, newest, given_up, receipt, epoch >= coalesce((
    select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0) as is_present
from box_epoch where customer_id = $1 and product_id = $2 and epoch = $3 for update
"""
# An entry that is there already stays, and another one with its number is a fork; but not its twin (`log_chain`), which
# differs in the last 32 bytes alone
INSERT: LiteralString = """
with came as (
  select * from unnest($4::integer[], $5::integer[], $6::bytea[], $7::bytea[]) c (number, first, hash, entry)
), made as (
  insert into box_entry (customer_id, product_id, epoch, number, first, hash, entry)
  select $1, $2, $3, number, first, hash, entry from came order by number, hash
  on conflict (customer_id, product_id, epoch, number) do nothing returning number, entry
), known as (
  select number, entry from made
  union all select number, e.entry from box_entry e join came using (number)
    where customer_id = $1 and product_id = $2 and epoch = $3
)
select distinct c.number, c.hash from came c join known k on k.number = c.number
  and substr(k.entry, 1, length(k.entry) - 32) <> substr(c.entry, 1, length(c.entry) - 32)
"""
NEXT: LiteralString = """
select number, hash, entry from box_entry
where customer_id = $1 and product_id = $2 and epoch = $3 and number > $4 order by number limit $5
"""
BEFORE: LiteralString = """
select entry from box_entry where customer_id = $1 and product_id = $2 and epoch = $3 and number = $4
"""
# What the box has given up by now: it has said so in whatever came
HELD_FROM: LiteralString = """
select max(first) as first, max(number) as newest from box_entry
where customer_id = $1 and product_id = $2 and epoch = $3
"""
TURN: LiteralString = """
update box_entry e set hash = u.hash, entry = u.entry from unnest($4::integer[], $5::bytea[], $6::bytea[])
  u (number, hash, entry)
where e.customer_id = $1 and e.product_id = $2 and e.epoch = $3 and e.number = u.number
"""
# Of each kind so many: whoever brings forgeries, as anybody can who has an app, hides nothing that the box has done
REPORT: LiteralString = """
insert into box_report (customer_id, product_id, epoch, kind, number, hash)
select $1, $2, $3, u.kind, u.number, u.hash from (
  select kind, number, hash, row_number() over (partition by kind order by min(n)) as place
  from unnest($4::text[], $5::integer[], $6::bytea[]) with ordinality came (kind, number, hash, n)
  where not exists (select from box_report r where r.customer_id = $1 and r.product_id = $2 and r.epoch = $3
    and r.kind = came.kind and r.number = came.number and r.hash = came.hash)
  group by kind, number, hash
) u
where u.place <= $7 - (select count(*) from box_report r
  where r.customer_id = $1 and r.product_id = $2 and r.epoch = $3 and r.kind = u.kind)
"""
KEEP: LiteralString = """
update box_epoch set up_to = $4, newest = $5, given_up = $6, receipt = coalesce($7, receipt),
  held_generation = coalesce($8, held_generation), held_at = coalesce($9, held_at)
where customer_id = $1 and product_id = $2 and epoch = $3
"""
# The last of those that are known without gaps stays: the next one names it
FORGET: LiteralString = """
with gone as (
  delete from box_entry where (customer_id, product_id, epoch, number) in (
    select b.customer_id, b.product_id, b.epoch, b.number
    from box_entry b join box_epoch e using (customer_id, product_id, epoch)
    where b.arrived_at < $1 and b.number < e.up_to limit $2)
  returning true)
select count(*) from gone
"""

Box = tuple[int, int]  # product and epoch


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What came of entries: receipts of the boxes that they are of, and why some were refused."""

    receipts: Mapping[Box, tuple[int, bytes]] = field(default_factory=dict[Box, tuple[int, bytes]])
    refused: Mapping[int, str] = field(default_factory=dict[int, str])  # place among what came -> why


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Entries that were read, by the box that they name."""

    entries: Mapping[Box, Sequence[tuple[int, SignedMessage]]]  # each with its place
    refused: Mapping[int, str]


def read(entries: Iterable[bytes]) -> ReadEntries:
    """What came, read and not verified."""
    entries_by_box: dict[Box, list[tuple[int, SignedMessage]]] = {}
    refused: dict[int, str] = {}
    for place, data in enumerate(entries):
        try:
            entry = cose.read(data, ENTRY)
        except MessageRefused as reason:
            refused[place] = UNREADABLE.format(code=reason.code.text)
            continue
        if (name := NAME(entry.claims["aud"])) is None or max(int(name[1]), int(name[2]), _last(entry)) >= 1 << 31:
            refused[place] = NO_BOX
            continue
        entries_by_box.setdefault((int(name[1]), int(name[2])), []).append((place, entry))
    return ReadEntries(entries_by_box, refused)


def _last(entry: SignedMessage) -> int:
    return max(entry.claims["number"], entry.claims["first"])


async def ingest_entries(
    db: Database, signers: IssuingKeySigners, settings: Settings, customer: int, came: ReadEntries
) -> UploadResult:
    """Keep what came, tell what can be told, and sign receipts: each box in a transaction of its own."""
    boxes = sorted(came.entries)
    columns = ([product for product, _ in boxes], [epoch for _, epoch in boxes])
    known = {(row["product_id"], row["epoch"]): row for row in await db.fetch(BOXES, customer, *columns)}
    refused = dict(came.refused)
    receipts: dict[Box, tuple[int, bytes]] = {}
    for box in boxes:
        if (row := known.get(box)) is None:
            refused |= {place: NO_BOX for place, _ in came.entries[box]}
            continue
        signed, forged = await asyncio.to_thread(_verified, row, came.entries[box])
        refused |= dict.fromkeys(forged, FORGED)
        reports: list[Report] = [("Forgery", entry.claims["number"], hash_of(entry.raw)) for entry in forged.values()]
        async with db.transaction() as connection:
            receipt = await _taken(
                connection, signers, settings, customer, box, signed, reports, is_pending=row["is_pending"]
            )
        if receipt is not None:
            receipts[box] = receipt
    return UploadResult(receipts, refused)


def _verified(
    row: Row, entries: Sequence[tuple[int, SignedMessage]]
) -> tuple[list[SignedMessage], dict[int, SignedMessage]]:
    """Those that the box has signed, each once, and the others by their places."""
    key = public(row["public_key"])
    good: dict[bytes, SignedMessage] = {}
    forged: dict[int, SignedMessage] = {}
    for place, entry in entries:
        if entry.kid == key.kid and verify(key, entry.to_be_signed, entry.signature):
            good[entry.raw] = entry
        else:
            forged[place] = entry
    return list(good.values()), forged


async def _taken(
    connection: Connection,
    signers: IssuingKeySigners,
    settings: Settings,
    customer: int,
    box: Box,
    entries: Sequence[SignedMessage],
    reports: list[Report],
    *,
    is_pending: bool,
) -> tuple[int, bytes] | None:
    """Keep entries that the box has signed, and go on along its log; the receipt, where it could be signed anew."""
    signer = await signers.newest(connection, customer)
    if is_pending:
        await enrolment.lock(connection, customer, box[0])
    known = await connection.fetchrow(LOCK, customer, *box)
    if known is None:
        return None  # it was removed meanwhile
    if is_pending and entries:  # a box has a name from its provisioning on, so any entry proves that
        await enrolment.prove(connection, customer, *box)
    columns = (
        [entry.claims["number"] for entry in entries], [entry.claims["first"] for entry in entries],
        [hash_of(entry.raw) for entry in entries], [entry.raw for entry in entries],
    )  # fmt: skip
    forks = await connection.fetch(INSERT, customer, *box, *columns)
    reports += [("Fork", row["number"], row["hash"]) for row in forks]
    held = await connection.fetchrow(HELD_FROM, customer, *box)
    last = await connection.fetchval(BEFORE, customer, *box, known["up_to"])
    walk = Walk(known["up_to"], known["given_up"], held["first"] or 1 if held else 1, last)
    while (rows := await connection.fetch(NEXT, customer, *box, walk.up_to, AT_ONCE)) and walk.go(rows):
        pass
    walk.stop(entries)
    if walk.twins:
        twins = dict(walk.twins)
        hashes = [hash_of(twin) for twin in twins.values()]
        await connection.execute(TURN, customer, *box, list(twins), hashes, list(twins.values()))
    reports += walk.reports + await publish_openings(connection, customer, box, walk.told)
    is_due = walk.told or walk.twins or known["receipt"] is None
    receipt = _receipt(signer, customer, box, walk) if is_due and known["is_present"] else None
    newest = max(known["newest"], held["newest"] or 0 if held else 0)
    await connection.execute(KEEP, customer, *box, walk.up_to, newest, walk.given_up, receipt, *_held(walk.told))
    await _report(connection, settings, customer, box, reports)
    return None if receipt is None else (walk.up_to, receipt)


def _held(entries: Sequence[SignedMessage]) -> tuple[int | None, datetime | None]:
    """Which list the box had at the last of these entries: its generation and its time."""
    if not entries:
        return None, None
    _, generation, at = entries[-1].claims["held"]
    if generation >= 1 << 31 or at > LAST_TIME:
        return None, None  # no list of ours
    return generation, datetime.fromtimestamp(at, UTC)


async def forget(db: Database, settings: Settings) -> None:
    """Forget old entries whose place in the log is settled. A step of housekeeping."""
    await run_in_batches(
        db, settings.housekeeping_rows, FORGET, now() - timedelta(days=settings.offline_key_retention_days)
    )


def _receipt(signer: IssuingKeySigner | None, customer: int, box: Box, walk: Walk) -> bytes | None:
    """That the log is known up to its last entry; None where that is missing, or nobody signs."""
    if signer is None or walk.hash is None or not walk.up_to:
        return None
    claims = {
        "iss": issuer(customer), "aud": box_name(*box), "iat": int(now().timestamp()), "upto": (walk.up_to, walk.hash),
    }  # fmt: skip
    return cose.sign(RECEIPT, signer.kid, claims, signer.key.sign)


async def _report(
    connection: Connection, settings: Settings, customer: int, box: Box, reports: Sequence[Report]
) -> None:
    """Keep what is wrong, as much as there is room for, and have the operator hear of it."""
    if not reports:
        return
    product, epoch = box
    for kind, number, _ in reports[:LOGGED]:
        log.error("box log fault found", kind=kind, customer=customer, product=product,
                  epoch=epoch, number=number, alert=kind != "GivenUp")  # fmt: skip
    kinds, numbers, hashes = (list(column) for column in zip(*reports, strict=True))
    await connection.execute(REPORT, customer, product, epoch, kinds, numbers, hashes, settings.max_box_reports)
