"""In charge of the logs of boxes as they come home: whose an entry is, where it has its place, what is wrong with it.

Entries come in any order, once or often, by whichever phone. What they tell goes on in the order of their numbers: up
to the first that is missing and that the box may still have (docs/key-log.md, "The log of a box"). An entry may arrive
after the box gave its number up. Then it fills its place in the gap, once, and is published late. An entry of a
discarded enrolment brings that one back, before it is taken.
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

log = structlog.get_logger("keyrack.box_logs")

NAME = re.compile(r"box:([1-9]\d{0,9}):([1-9]\d{0,9})").fullmatch
LOGGED = 10  # reports of one kind and one delivery that the server's log has one by one
LARGEST = (1 << 31) - 1  # that a column of integers has
AT_ONCE = 500  # entries that are told in one go
ATTEMPTS = 3  # for an enrolment that is discarded again and again at the same time
NO_BOX = "There is no box with this name and epoch."
TOO_LARGE = f"The number of the entry is greater than {LARGEST:,}."
FORGED = "The entry is not signed by the box."
UNREADABLE = "The entry is not valid ({code})."
OTHER_PENDING = "The enrolment of this box was discarded or replaced, and another enrolment of the product is pending."

BOXES: LiteralString = """
select product_id, epoch, public_key, is_pending, discarded_at is not null as is_discarded
from box_epoch where customer_id = $1 and (product_id, epoch) in (select * from unnest($2::integer[], $3::integer[]))
"""
# With the roots of the authority, if the epoch was enrolled under it and not under a lost one. A root that was replaced
# before the enrolment has provisioned nothing since, unless it is in other hands
LOCK: LiteralString = """
select up_to, newest, given_up, receipt, is_pending, discarded_at is not null as is_discarded,
  not isempty(gaps) as has_gaps, epoch >= coalesce((
    select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0) as is_present,
  t.public_key as root, array(
    select message from new_root n where n.customer_id = $1 and n.created_at >= e.enrolled_at) as new_roots
from box_epoch e left join key_authority t on t.customer_id = e.customer_id and t.created_at <= e.enrolled_at
where e.customer_id = $1 and product_id = $2 and epoch = $3 for update of e
"""
# An entry that is there already stays, and another one with its number is a fork. Builds before 0.3 have stored entries
# with a high s, which differ from their low form in the last 32 bytes alone
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
# Which of these numbers were given up and have an entry by now, with the entries before and after each
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
# The lowest number that the box holds, and the newest one. Builds before 0.3 have stored entries whose `first`
# is higher than their number
HELD_FROM: LiteralString = """
select max(least(first, number)) as first, max(number) as newest from box_entry
where customer_id = $1 and product_id = $2 and epoch = $3
"""
# Signed by the server for the box: the key set's sequence, and the newest list of each generation
SIGNED: LiteralString = """
select t.sequence, g.generation, extract(epoch from g.listed_at)::bigint as listed_at
from status_generation g left join key_authority t using (customer_id)
where g.customer_id = $1 and g.product_id = $2 and g.epoch = $3
"""
# Each kind has a bound of its own, and each bringer of forgeries: any user of an app can bring them, and hides neither
# what the box has done nor what others bring. It returns how many of each kind were beyond the bound
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
# The newest report of the same kind and bringer counts for those beyond the bound
COUNT_BEYOND: LiteralString = """
update box_report r set times = least(r.times::bigint + b.times, 2147483647)
from unnest($4::text[], $5::text[], $6::integer[], $7::integer[]) b (kind, fault, user_id, times)
where r.customer_id = $1 and r.report_id = (
  select max(report_id) from box_report n
  where n.customer_id = $1 and n.product_id = $2 and n.epoch = $3 and n.kind = b.kind
    and n.fault is not distinct from b.fault and n.user_id is not distinct from b.user_id)
"""
# Kinds in the column `fault` -> the one in `kind`, which is of the release before (migration 0061)
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


class _EpochDiscarded(Exception):
    """The enrolment was discarded meanwhile."""


class _EpochRefused(Exception):
    """The enrolment stays discarded, or is none of the box: its entries are refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read(entries: Iterable[bytes]) -> ReadEntries:
    """What came, read and not verified."""
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
    db: Database, signers: IssuingKeySigners, settings: Settings, customer: int, user: int, came: ReadEntries
) -> UploadResult:
    """Keep the entries that this user's app brought, publish openings, and sign receipts.

    Each box has a transaction of its own.
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
            receipt = await _taken_or_returned(db, signers, settings, customer, user, row, signed, reports)
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


async def _taken_or_returned(
    db: Database,
    signers: IssuingKeySigners,
    settings: Settings,
    customer: int,
    user: int,
    row: Row,
    entries: Sequence[SignedMessage],
    reports: list[Report],
) -> tuple[int, bytes] | None:
    """Keep entries as `_taken` does. A discarded enrolment comes back before. Raises `_EpochRefused`.

    Another request may discard the enrolment after the look at `row`, and so may the entry of another enrolment of the
    box in the same delivery. No entry is dropped without a reason then.
    """
    box, is_discarded = (row["product_id"], row["epoch"]), row["is_discarded"]
    for _ in range(ATTEMPTS):
        if is_discarded and (reason := await _bring_back(db, customer, box, entries)) is not None:
            raise _EpochRefused(reason)
        try:
            async with db.transaction() as connection:
                return await _taken(
                    connection, signers, settings, customer, user, box, entries, reports, is_pending=row["is_pending"]
                )
        except _EpochDiscarded:
            is_discarded = True
    raise _EpochRefused(OTHER_PENDING)


async def _bring_back(db: Database, customer: int, box: Box, entries: Sequence[SignedMessage]) -> str | None:
    """Bring a discarded enrolment back if its box has signed one of these entries; else why they are refused."""
    async with db.transaction() as connection:
        await enrolment.lock(connection, customer, box[0])
        epoch_row = await connection.fetchrow(LOCK, customer, *box)
        if epoch_row is None or not epoch_row["is_present"]:
            return NO_BOX
        if not epoch_row["is_discarded"]:
            return None  # it came back meanwhile
        if not _has_known_root(entries, _roots(epoch_row)):
            return NO_BOX
        return None if await enrolment.bring_back(connection, customer, *box) else OTHER_PENDING


def _roots(epoch_row: Row) -> frozenset[bytes]:
    """The `kid`s of the roots that a box of this epoch may obey."""
    return frozenset[bytes]() if epoch_row["root"] is None else root_kids(epoch_row["root"], epoch_row["new_roots"])


def _has_known_root(entries: Iterable[SignedMessage], roots: Container[bytes]) -> bool:
    """Whether an entry proves that its box has a name.

    A box has a name from its provisioning on, so any entry proves that. The root may be that of an attacker.
    """
    return any(entry.claims["root-kid"] in roots for entry in entries)


async def _taken(
    connection: Connection,
    signers: IssuingKeySigners,
    settings: Settings,
    customer: int,
    user: int,
    box: Box,
    entries: Sequence[SignedMessage],
    reports: list[Report],
    *,
    is_pending: bool,
) -> tuple[int, bytes] | None:
    """Keep entries that the box has signed, and return a newer receipt if there is one.

    Raises `_EpochDiscarded`.
    """
    signer = await signers.newest_service(connection, customer)
    if is_pending:
        await enrolment.lock(connection, customer, box[0])
    epoch = await connection.fetchrow(LOCK, customer, *box)
    if epoch is None:
        return None  # it was removed meanwhile
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
        connection, customer, box, late.entries, is_late=True, is_pending=still_pending
    )
    faults = await publish_openings(connection, customer, box, walk.entries, is_pending=still_pending)
    unknown = await _unknown_claims(connection, customer, box, roots, [*late.entries, *walk.entries])
    # The hash is not that of the entry, as an entry may be reported for its key as well
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
    """Store the entries that are new. Returns a report for each that contradicts a stored one."""
    forks = await connection.fetch(
        INSERT, customer, *box,
        [entry.claims["number"] for entry in entries], [entry.claims["first"] for entry in entries],
        [hash_of(entry.raw) for entry in entries], [entry.raw for entry in entries],
    )  # fmt: skip
    return [("Fork", row["number"], row["hash"]) for row in forks]


class _StoredNumbers(NamedTuple):
    """The numbers of the stored entries of a box."""

    first: int  # the lowest number that the box still holds, 1 if no entry tells
    newest: int  # 0 without an entry


async def _stored_numbers(connection: Connection, customer: int, box: Box) -> _StoredNumbers:
    row = await connection.fetchrow(HELD_FROM, customer, *box)
    assert row is not None  # noqa: S101 - an aggregate always has a row
    return _StoredNumbers(row["first"] or 1, row["newest"] or 0)


async def _late_entries(
    connection: Connection, customer: int, box: Box, epoch: Row, entries: Sequence[SignedMessage]
) -> LateEntries:
    """Those of the entries whose numbers were given up before."""
    if not epoch["has_gaps"]:
        return LateEntries()
    numbers = [entry.claims["number"] for entry in entries]
    return late_entries(await connection.fetch(LATE, customer, *box, numbers), epoch["up_to"])


async def _walk(connection: Connection, customer: int, box: Box, epoch: Row, held_from: int) -> Walk:
    """Go on along the log from where it was known, up to the first number that may still come."""
    last = await connection.fetchval(BEFORE, customer, *box, epoch["up_to"])
    walk = Walk(epoch["up_to"], epoch["given_up"], held_from, last)
    while (rows := await connection.fetch(NEXT, customer, *box, walk.up_to, AT_ONCE)) and walk.go(rows):
        pass
    return walk


class Claim(NamedTuple):
    """The root, key set and list that an entry names as the box's."""

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
    """The claim of the last of these entries: sequence, generation and time of a list.

    Larger values than the columns have become the largest, which the server has never signed. A claim that the server
    has not signed gets the largest time: the claimed one may be a time of the future, and the server's lists reach it.
    """
    if not entries:
        return None, None, None
    claim = Claim.of(entries[-1])
    at = LAST_TIME if claim in unknown else min(claim.at, LAST_TIME)
    return min(claim.sequence, LARGEST), min(claim.generation, LARGEST), datetime.fromtimestamp(at, UTC)


async def _unknown_claims(
    connection: Connection, customer: int, box: Box, roots: frozenset[bytes], entries: Sequence[SignedMessage]
) -> dict[Claim, SignedMessage]:
    """Claims of lists, key sets and roots that are not the server's.

    Each has the first entry that makes it. A box of a lost authority makes none.
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
    """Forget old entries whose place in the log is settled. A step of housekeeping."""
    await run_in_batches(
        db, settings.housekeeping_rows, FORGET, now() - timedelta(days=settings.offline_key_retention_days)
    )


def _receipt(signer: ServiceKeySigner | None, customer: int, box: Box, walk: Walk) -> bytes | None:
    """That the log is known up to its last entry; None where that is missing, or nobody signs."""
    if signer is None or walk.hash is None or not walk.up_to:
        return None
    claims = {
        "iss": issuer(customer), "aud": box_name(*box), "iat": int(now().timestamp()), "upto": (walk.up_to, walk.hash),
    }  # fmt: skip
    return cose.sign(RECEIPT, signer.kid, claims, signer.key.sign)


async def _report(
    connection: Connection, settings: Settings, customer: int, user: int, box: Box, reports: Sequence[Report]
) -> None:
    """Keep what is wrong, as much as there is room for, and have the operator hear of it."""
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
