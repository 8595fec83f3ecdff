"""The logs of boxes on the server: entries, gaps, faults and receipts.

Phones bring entries in any order, once or often. Openings are published in the order of their numbers, up to the first
missing number that the box may still have (docs/key-log.md).

An entry may arrive after its number was given up. It then fills its place in the gap, once, and is published late. An
entry of a discarded enrolment restores that enrolment before the entry is stored.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import LiteralString, NamedTuple

import structlog

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.named_parameters import compile_statement
from keyrack.db.row_batches import run_in_batches
from keyrack.offline_keys import cose, enrolment
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.issuing_keys import IssuingKeySigners, ServiceKeySigner, box_name, issuer, public, root_kids
from keyrack.offline_keys.log_chain import LateEntries, Report, Walk, hash_of, late_entries
from keyrack.offline_keys.message_fields import RECEIPT
from keyrack.offline_keys.opening_events import LAST_TIME, publish_openings
from keyrack.offline_keys.p256 import verify
from keyrack.offline_keys.status_lists import AHEAD
from keyrack.offline_keys.timestamps import now
from keyrack.webhooks.event_deliveries import EventPublisher

log = structlog.get_logger("keyrack.box_logs")

NAME = re.compile(r"box:([1-9]\d{0,9}):([1-9]\d{0,9})").fullmatch
LOGGED = 10  # reports of one kind in one upload that are logged one by one
LARGEST = (1 << 31) - 1  # of an integer column
AT_ONCE = 500  # entries per query of a walk
ATTEMPTS = 3  # for an enrolment that other requests keep discarding
NO_BOX = "There is no box with this name and epoch."
TOO_LARGE = f"The number of the entry is greater than {LARGEST:,}."
FORGED = "The entry is not signed by the box."
UNREADABLE = "The entry is not valid ({code})."
OTHER_PENDING = "The enrolment of this box was discarded or replaced, and another enrolment of the product is pending."

BOXES: LiteralString = """
select product_id, epoch, public_key, is_pending, discarded_at is not null as is_discarded
from box_epoch where customer_id = $1 and (product_id, epoch) in (select * from unnest($2::integer[], $3::integer[]))
"""
# With the roots of the authority if the epoch was enrolled under it, and not under a lost one. A root that was replaced
# before the enrolment has provisioned no box since, unless it was stolen
LOCK: LiteralString = """
select up_to, newest, given_up, receipt, is_pending, discarded_at is not null as is_discarded,
  not isempty(gaps) as has_gaps, epoch >= coalesce((
    select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0) as is_present,
  t.public_key as root, array(
    select message from new_root n where n.customer_id = $1 and n.created_at >= e.enrolled_at) as new_roots
from box_epoch e left join key_authority t on t.customer_id = e.customer_id and t.created_at <= e.enrolled_at
where e.customer_id = $1 and product_id = $2 and epoch = $3 for update of e
"""
# A stored entry stays, and another entry with its number is a fork. Builds before 0.3 stored entries with a high s.
# These differ from their low form only in the last 32 bytes
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
# Numbers of these that were given up and have an entry now, with the entries before and after each
LATE: LiteralString = """
with late as (
  select b.number from box_entry b join box_epoch e using (customer_id, product_id, epoch)
  where b.customer_id = $1 and b.product_id = $2 and b.epoch = $3 and b.number = any($4::integer[])
    and e.gaps @> b.number
)
select number, entry, number in (select number from late) as is_late from box_entry
where customer_id = $1 and product_id = $2 and epoch = $3
  and number in (select number + step from late, (values (-1), (0), (1)) s (step)) order by number
"""
BEFORE: LiteralString = """
select entry from box_entry where customer_id = $1 and product_id = $2 and epoch = $3 and number = $4
"""
# The lowest number that the box still has, and the newest one. Builds before 0.3 stored entries whose `first` is higher
# than their number
HELD_FROM: LiteralString = """
select max(least(first, number)) as first, max(number) as newest from box_entry
where customer_id = $1 and product_id = $2 and epoch = $3
"""
# The server's own signatures for the box: the key set's sequence, and the newest list of each generation
SIGNED: LiteralString = """
select t.sequence, g.generation, extract(epoch from g.listed_at)::bigint as listed_at
from status_generation g left join key_authority t using (customer_id)
where g.customer_id = $1 and g.product_id = $2 and g.epoch = $3
"""
# Each kind of report has its own limit, and so has each user who brings forgeries. Any user of an app can bring
# forgeries. They must not hide the box's own faults or the reports of other users. Returns how many reports exceed the
# limit
REPORT = compile_statement("""
with came as (
  select kind, fault, number, hash, case when kind = 'Forgery' then :user::integer end as user_id,
    row_number() over (partition by kind, fault order by min(n)) as place
  from unnest(:kinds::text[], :faults::text[], :numbers::integer[], :hashes::bytea[])
    with ordinality c (kind, fault, number, hash, n)
  where not exists (select from box_report r where r.customer_id = :customer and r.product_id = :product
    and r.epoch = :epoch and r.kind = c.kind and r.number = c.number and r.hash = c.hash)
  group by kind, fault, number, hash
), ranked as (
  select c.*, c.place <= :most - (select count(*) from box_report r
    where r.customer_id = :customer and r.product_id = :product and r.epoch = :epoch and r.kind = c.kind
      and r.fault is not distinct from c.fault and r.user_id is not distinct from c.user_id) as is_kept
  from came c
), kept as (
  insert into box_report (customer_id, product_id, epoch, kind, fault, number, hash, user_id)
  select :customer, :product, :epoch, kind, fault, number, hash, user_id from ranked where is_kept
)
select kind, fault, user_id, count(*)::integer as times from ranked where not is_kept group by kind, fault, user_id
""")
# Reports beyond the limit count in the newest report of the same kind and user
COUNT_BEYOND: LiteralString = """
update box_report r set times = least(r.times::bigint + b.times, 2147483647)
from unnest($4::text[], $5::text[], $6::integer[], $7::integer[]) b (kind, fault, user_id, times)
where r.customer_id = $1 and r.report_id = (
  select max(report_id) from box_report n
  where n.customer_id = $1 and n.product_id = $2 and n.epoch = $3 and n.kind = b.kind
    and n.fault is not distinct from b.fault and n.user_id is not distinct from b.user_id)
"""
# Kinds in the column `fault` -> the kind of the release before, in the column `kind` (migration 0061)
FAULTS = {"Late": "GivenUp", "UnknownList": "UnknownKey"}
KEEP = compile_statement("""
update box_epoch set up_to = :up_to, newest = :newest, given_up = :given_up, receipt = coalesce(:receipt, receipt),
  held_sequence = coalesce(:held_sequence, held_sequence),
  held_generation = coalesce(:held_generation, held_generation), held_at = coalesce(:held_at, held_at),
  gaps = gaps - (select coalesce(range_agg(int4range(n, n, '[]')), '{}') from unnest(:late::integer[]) n)
    + (select coalesce(range_agg(int4range(a, b, '[]')), '{}')
       from unnest(:gap_starts::integer[], :gap_ends::integer[]) g (a, b))
where customer_id = :customer and product_id = :product and epoch = :epoch
""")
# The entry `up_to` stays, because the next entry names its hash
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
    """The result of an upload: receipts, and reasons for refusals."""

    receipts: Mapping[Box, tuple[int, bytes]] = field(default_factory=dict[Box, tuple[int, bytes]])
    refused: Mapping[int, str] = field(default_factory=dict[int, str])  # index in the upload -> reason


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Parsed entries, by the box that they name."""

    entries: Mapping[Box, Sequence[tuple[int, SignedMessage]]]  # each with its index
    refused: Mapping[int, str]


class _EpochDiscarded(Exception):
    """Another request has discarded the enrolment."""


class _EpochRefused(Exception):
    """The enrolment stays discarded, or does not exist. Its entries are refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read(entries: Iterable[bytes]) -> ReadEntries:
    """Parse uploaded entries. Their signatures are not verified."""
    entries_by_box: dict[Box, list[tuple[int, SignedMessage]]] = {}
    refused: dict[int, str] = {}
    for place, data in enumerate(entries):
        try:
            entry = cose.read_entry(data)
        except MessageRefused as reason:
            refused[place] = UNREADABLE.format(code=reason.code.text)
            continue
        if (name := NAME(entry.claims["aud"])) is None or max(int(name[1]), int(name[2])) > LARGEST:
            refused[place] = NO_BOX
            continue
        if entry.claims["number"] > LARGEST:
            refused[place] = TOO_LARGE
            continue
        entries_by_box.setdefault((int(name[1]), int(name[2])), []).append((place, entry))
    return ReadEntries(entries_by_box, refused)


async def ingest_entries(
    db: Database,
    signers: IssuingKeySigners,
    publisher: EventPublisher,
    settings: Settings,
    customer: int,
    user: int,
    came: ReadEntries,
) -> UploadResult:
    """Store the entries of an upload, publish openings, and sign receipts.

    Each box has its own transaction.
    """
    boxes = sorted(came.entries)
    columns = ([product for product, _ in boxes], [epoch for _, epoch in boxes])
    epochs_by_box = {(row["product_id"], row["epoch"]): row for row in await db.fetch(BOXES, customer, *columns)}
    refused = dict(came.refused)
    receipts: dict[Box, tuple[int, bytes]] = {}
    for box in boxes:
        if (row := epochs_by_box.get(box)) is None:
            refused |= {place: NO_BOX for place, _ in came.entries[box]}
            continue
        signed, forged = await asyncio.to_thread(_verified, row, came.entries[box])
        reports: list[Report] = [("Forgery", entry.claims["number"], hash_of(entry.raw)) for entry in forged.values()]
        try:
            receipt = await _taken_or_returned(db, signers, publisher, settings, customer, user, row, signed, reports)
        except _EpochRefused as epoch:
            refused |= {place: epoch.reason for place, _ in came.entries[box]}
            continue
        refused |= dict.fromkeys(forged, FORGED)
        if receipt is not None:
            receipts[box] = receipt
    return UploadResult(receipts, refused)


def _verified(
    row: Row, entries: Sequence[tuple[int, SignedMessage]]
) -> tuple[list[SignedMessage], dict[int, SignedMessage]]:
    """Split entries by signature: valid ones, each once, and forgeries by index."""
    key = public(row["public_key"])
    good: dict[bytes, SignedMessage] = {}
    forged: dict[int, SignedMessage] = {}
    for place, entry in entries:
        if entry.kid == key.kid and verify(key, entry.to_be_signed, entry.signature):
            good[entry.raw] = entry
        else:
            forged[place] = entry
    return list(good.values()), forged


async def _taken_or_returned(
    db: Database,
    signers: IssuingKeySigners,
    publisher: EventPublisher,
    settings: Settings,
    customer: int,
    user: int,
    row: Row,
    entries: Sequence[SignedMessage],
    reports: list[Report],
) -> tuple[int, bytes] | None:
    """Store entries as `_taken` does, after a discarded enrolment is restored.

    Another request may discard the enrolment after `row` was read. An entry of another enrolment of the box in the same
    upload may do so too. No entry is dropped without a reason in these cases. Raises `_EpochRefused`.
    """
    box, is_discarded = (row["product_id"], row["epoch"]), row["is_discarded"]
    for _ in range(ATTEMPTS):
        if is_discarded and (reason := await _bring_back(db, customer, box, entries)) is not None:
            raise _EpochRefused(reason)
        try:
            async with db.transaction() as connection:
                return await _taken(
                    connection,
                    signers,
                    publisher,
                    settings,
                    customer,
                    user,
                    box,
                    entries,
                    reports,
                    is_pending=row["is_pending"],
                )
        except _EpochDiscarded:
            is_discarded = True
    raise _EpochRefused(OTHER_PENDING)


async def _bring_back(db: Database, customer: int, box: Box, entries: Sequence[SignedMessage]) -> str | None:
    """Restore a discarded enrolment if its box has signed an entry.

    Returns the reason for refusing the entries, or None.
    """
    async with db.transaction() as connection:
        await enrolment.lock(connection, customer, box[0])
        epoch_row = await connection.fetchrow(LOCK, customer, *box)
        if epoch_row is None or not epoch_row["is_present"]:
            return NO_BOX
        if not epoch_row["is_discarded"]:
            return None  # restored meanwhile
        if not _has_known_root(entries, _roots(epoch_row)):
            return NO_BOX
        return None if await enrolment.bring_back(connection, customer, *box) else OTHER_PENDING


def _roots(epoch_row: Row) -> frozenset[bytes]:
    """The `kid`s of the roots that a box of this epoch may obey.

    There is none for a lost authority.
    """
    return frozenset[bytes]() if epoch_row["root"] is None else root_kids(epoch_row["root"], epoch_row["new_roots"])


def _has_known_root(entries: Iterable[SignedMessage], roots: Container[bytes]) -> bool:
    """Whether an entry names a root of the authority.

    It proves that the box has a name, which a box has from its provisioning on. Another root may be that of an
    attacker.
    """
    return any(entry.claims["root-kid"] in roots for entry in entries)


async def _taken(
    connection: Connection,
    signers: IssuingKeySigners,
    publisher: EventPublisher,
    settings: Settings,
    customer: int,
    user: int,
    box: Box,
    entries: Sequence[SignedMessage],
    reports: list[Report],
    *,
    is_pending: bool,
) -> tuple[int, bytes] | None:
    """Store entries that the box has signed, and return a newer receipt.

    Returns None if there is no newer receipt. Raises `_EpochDiscarded`.
    """
    signer = await signers.newest_service(connection, customer)
    if is_pending:
        await enrolment.lock(connection, customer, box[0])
    epoch = await connection.fetchrow(LOCK, customer, *box)
    if epoch is None:
        return None  # removed meanwhile
    if epoch["is_discarded"]:
        raise _EpochDiscarded
    roots = _roots(epoch)
    is_proven = _has_known_root(entries, roots)
    still_pending = epoch["is_pending"] and not (is_proven and await enrolment.prove(connection, customer, *box))

    forks = await _store(connection, customer, box, entries)
    stored = await _stored_numbers(connection, customer, box)
    late = await _late_entries(connection, customer, box, epoch, entries)
    walk = await _walk(connection, customer, box, epoch, stored.first)

    late_faults = await publish_openings(
        connection, publisher, customer, box, late.entries, is_late=True, is_pending=still_pending
    )
    faults = await publish_openings(connection, publisher, customer, box, walk.entries, is_pending=still_pending)
    unknown = await _unknown_claims(connection, customer, box, roots, [*late.entries, *walk.entries])
    # Not the hash of the entry, because the same entry may also be reported for its key
    unknown_lists: list[Report] = [
        ("UnknownList", entry.claims["number"], hash_of(b"list" + entry.raw)) for entry in unknown.values()
    ]
    reports += [*forks, *late.reports, *late_faults, *walk.reports, *faults, *unknown_lists]

    wants_receipt = epoch["is_present"] and (walk.entries or epoch["receipt"] is None)
    receipt = _receipt(signer, customer, box, walk) if wants_receipt else None
    newest = max(epoch["newest"], stored.newest)
    product, epoch_number = box
    sequence, generation, held_at = _last_claim(walk.entries, unknown)
    arguments = KEEP.arguments(
        customer=customer,
        product=product,
        epoch=epoch_number,
        up_to=walk.up_to,
        newest=newest,
        given_up=walk.given_up - len(late.entries),
        receipt=receipt,
        held_sequence=sequence,
        held_generation=generation,
        held_at=held_at,
        late=late.numbers,
        gap_starts=[first for first, _ in walk.gaps],
        gap_ends=[last for _, last in walk.gaps],
    )
    await connection.execute(KEEP.sql, *arguments)
    await _report(connection, settings, customer, user, box, reports)
    return None if receipt is None else (walk.up_to, receipt)


async def _store(connection: Connection, customer: int, box: Box, entries: Sequence[SignedMessage]) -> list[Report]:
    """Store new entries. Returns a report for each that contradicts a stored one."""
    forks = await connection.fetch(
        INSERT, customer, *box,
        [entry.claims["number"] for entry in entries], [entry.claims["first"] for entry in entries],
        [hash_of(entry.raw) for entry in entries], [entry.raw for entry in entries],
    )  # fmt: skip
    return [("Fork", row["number"], row["hash"]) for row in forks]


class _StoredNumbers(NamedTuple):
    """The numbers of the stored entries of a box."""

    first: int  # lowest number that the box still has, 1 if unknown
    newest: int  # 0 without an entry


async def _stored_numbers(connection: Connection, customer: int, box: Box) -> _StoredNumbers:
    row = await connection.fetchrow(HELD_FROM, customer, *box)
    assert row is not None  # noqa: S101 - an aggregate always has a row
    return _StoredNumbers(row["first"] or 1, row["newest"] or 0)


async def _late_entries(
    connection: Connection, customer: int, box: Box, epoch: Row, entries: Sequence[SignedMessage]
) -> LateEntries:
    """The entries whose numbers were given up before they arrived."""
    if not epoch["has_gaps"]:
        return LateEntries()
    numbers = [entry.claims["number"] for entry in entries]
    return late_entries(await connection.fetch(LATE, customer, *box, numbers), epoch["up_to"])


async def _walk(connection: Connection, customer: int, box: Box, epoch: Row, held_from: int) -> Walk:
    """Walk the log up to the first number that may still arrive."""
    last = await connection.fetchval(BEFORE, customer, *box, epoch["up_to"])
    walk = Walk(epoch["up_to"], epoch["given_up"], held_from, last)
    while (rows := await connection.fetch(NEXT, customer, *box, walk.up_to, AT_ONCE)) and walk.go(rows):
        pass
    return walk


class Claim(NamedTuple):
    """The root, key set and list that an entry names."""

    root: bytes  # `kid`
    sequence: int  # of a key set or new root
    generation: int  # of a list
    at: int  # the time of that list

    @classmethod
    def of(cls, entry: SignedMessage) -> Claim:
        return cls(entry.claims["root-kid"], *entry.claims["held"])


def _last_claim(
    entries: Sequence[SignedMessage], unknown: Container[Claim]
) -> tuple[int | None, int | None, datetime | None]:
    """The last entry's claim: sequence, generation and time of a list.

    Values beyond the columns become the largest one, which the server has never signed. A claim that the server has not
    signed gets the largest time. The claimed time may be in the future, and the server's lists would reach it.
    """
    if not entries:
        return None, None, None
    claim = Claim.of(entries[-1])
    at = LAST_TIME if claim in unknown else min(claim.at, LAST_TIME)
    return min(claim.sequence, LARGEST), min(claim.generation, LARGEST), datetime.fromtimestamp(at, UTC)


async def _unknown_claims(
    connection: Connection, customer: int, box: Box, roots: frozenset[bytes], entries: Sequence[SignedMessage]
) -> dict[Claim, SignedMessage]:
    """Claims that the server has not signed: lists, key sets and roots.

    Each is returned with its first entry. Claims of a box of a lost authority are not checked.
    """
    claimed: dict[Claim, SignedMessage] = {}
    for entry in entries:
        claimed.setdefault(Claim.of(entry), entry)
    if not claimed or not roots:
        return {}
    rows = await connection.fetch(SIGNED, customer, *box)
    signed = {row["generation"]: row["listed_at"] for row in rows}
    newest = max((row["sequence"] or LARGEST for row in rows), default=LARGEST)
    latest = int((now() + AHEAD).timestamp())
    return {
        claim: entry
        for claim, entry in claimed.items()
        if claim.root not in roots
        or claim.sequence > newest
        or claim.at > min(latest, signed.get(claim.generation) or 0)
    }


async def forget(db: Database, settings: Settings) -> None:
    """Delete old entries whose place in the log is settled. A housekeeping step."""
    await run_in_batches(
        db, settings.housekeeping_rows, FORGET, now() - timedelta(days=settings.offline_key_retention_days)
    )


def _receipt(signer: ServiceKeySigner | None, customer: int, box: Box, walk: Walk) -> bytes | None:
    """A receipt up to the last known entry.

    None if the log is empty, its last entry is missing, or there is no service key.
    """
    if signer is None or walk.hash is None or not walk.up_to:
        return None
    claims = {
        "iss": issuer(customer), "aud": box_name(*box), "iat": int(now().timestamp()), "upto": (walk.up_to, walk.hash),
    }  # fmt: skip
    return cose.sign(RECEIPT, signer.kid, claims, signer.key.sign)


async def _report(
    connection: Connection, settings: Settings, customer: int, user: int, box: Box, reports: Sequence[Report]
) -> None:
    """Log faults, and store reports within their limits."""
    if not reports:
        return
    product, epoch = box
    counts = Counter[str]()
    for kind, number, _ in reports:
        counts[kind] += 1
        if counts[kind] > LOGGED:
            continue
        fields = {"customer": customer, "product": product, "epoch": epoch, "number": number}
        if kind == "Late":
            log.warning("late box log entry", **fields)
        else:
            log.error("box log fault found", kind=kind, alert=True, **fields)
    kinds, numbers, hashes = (list(column) for column in zip(*reports, strict=True))
    arguments = REPORT.arguments(
        customer=customer,
        product=product,
        epoch=epoch,
        user=user,
        kinds=[FAULTS.get(kind, kind) for kind in kinds],
        faults=[kind if kind in FAULTS else None for kind in kinds],
        numbers=numbers,
        hashes=hashes,
        most=settings.max_box_reports,
    )
    beyond = await connection.fetch(REPORT.sql, *arguments)
    if beyond:
        columns = ([row[name] for row in beyond] for name in ("kind", "fault", "user_id", "times"))
        await connection.execute(COUNT_BEYOND, customer, product, epoch, *columns)
