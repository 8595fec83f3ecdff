"""Reads a customer's change feed: its extent, valid cursors, and batches in number order without gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.schema import CHANGE
from keyrack.core.error_codes import NO_CUSTOMER, ErrorCode
from keyrack.core.errors import Gone, NotFound
from keyrack.db.connection import Row, Statements
from keyrack.db.named_parameters import compile_statement

CURSOR_GONE = ErrorCode(
    "cursor-gone",
    "The change log does not contain this position. It has the changes {oldest} to {newest} of epoch {epoch}.",
    "Note `newest` and `epoch`, read all your resources again, then continue after that number.",
)
# Response headers about the log
EPOCH, OLDEST, NEWEST = "Changes-Epoch", "Changes-Oldest", "Changes-Newest"
HEADERS: Mapping[str, str] = {
    EPOCH: (
        "The epoch of the log, for the parameter `epoch`. A restored server begins a new epoch. Absent before the"
        " first change."
    ),
    OLDEST: "The number of the oldest available change.",
    NEWEST: "The number of the newest change at the time of this response. `id gt` this number misses no change.",
}
LONG_AGO = datetime.min.replace(tzinfo=UTC)
MOST = 100  # changes per batch
LARGE = 65_536  # bytes per batch; the last change may exceed it

# Earlier epochs are still listed, but no cursor continues in them
LOOK: LiteralString = """
select epoch, first_id, greatest(oldest_id, first_id) as oldest_id, last_id, last_recorded_at from change_log
where customer_id = $1
"""
IS_CUSTOMER: LiteralString = "select exists (select from customer where customer_id = $1)"
# A lower bound of `recorded_at` avoids the partitions of earlier months
READ = compile_statement(
    "select p.change_id, p.recorded_at, p.item from (select c.*,"
    " sum(octet_length(item)) over (order by change_id) - octet_length(item) as before from ("
    "select t.change_id, t.recorded_at, row_to_json(x)::text as item from " + CHANGE.table.format(t="t")
    + ", lateral (select " + CHANGE.json_columns("t") + ") x where " + CHANGE.scope.format(t="t")
    + " and t.change_id > :behind and t.change_id <= :until and t.recorded_at >= :recorded"
    " order by t.change_id limit :most) c) p where before < :size order by p.change_id"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a customer's log: from `oldest` to `newest`, which was recorded at `recorded`.

    `first` is the first number of its epoch. A log without changes has no epoch and no number, and begins with 1.
    """

    epoch: UUID | None = None
    oldest: int = 1
    newest: int = 0
    recorded: datetime = LONG_AGO
    first: int = 1

    def as_json(self) -> dict[str, object]:
        """The extent as JSON for programs."""
        epoch = None if self.epoch is None else str(self.epoch)
        return {"epoch": epoch, "oldest": self.oldest, "newest": self.newest}

    def headers(self) -> dict[str, str]:
        """The extent as response headers."""
        values = {EPOCH: self.epoch, OLDEST: self.oldest, NEWEST: self.newest}
        return {name: str(value) for name, value in values.items() if value is not None}

    def has(self, number: int | None, epoch: UUID | None) -> bool:
        """Whether the log has this epoch, and a reader can continue after this number."""
        return (epoch is None or epoch == self.epoch) and (number is None or self.oldest - 1 <= number <= self.newest)

    def check(self, number: int | None, epoch: UUID | None) -> None:
        """Raise `Gone` unless `has` is true."""
        if not self.has(number, epoch):
            reason = CURSOR_GONE.format(oldest=self.oldest, newest=self.newest, epoch=self.epoch or "none")
            raise Gone(reason, self.as_json(), self.headers())


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of changes, each as one line of JSON.

    It has the numbers of the first and the last change, and the recording time of the last.
    """

    first: int
    last: int
    recorded: datetime
    items: tuple[tuple[int, str], ...]


async def load_extent(statements: Statements, customer: int) -> Extent:
    """The current extent of the log. Raises `NotFound` if there is no such customer any more.

    A customer that has just moved to another cell has no log here. Its readers look there, and no change is missing.
    """
    row = await statements.fetchrow(LOOK, customer)
    if row is None:
        if not await statements.fetchval(IS_CUSTOMER, customer):
            raise NotFound(NO_CUSTOMER)
        return Extent()
    return Extent(row["epoch"], row["oldest_id"], row["last_id"], row["last_recorded_at"] or LONG_AGO,
                  row["first_id"])  # fmt: skip


async def read(
    statements: Statements, customer: int, behind: int, until: int, recorded: datetime = LONG_AGO
) -> Piece | None:
    """The first changes after number `behind` and up to `until`; None without any.

    `recorded` is the recording time of the change `behind`, or an earlier time.
    """
    arguments = READ.arguments(customer=customer, behind=behind, until=until, recorded=recorded, most=MOST, size=LARGE)
    rows: list[Row] = await statements.fetch(READ.sql, *arguments)
    if not rows:
        return None
    items = tuple([(row["change_id"], row["item"]) for row in rows])
    return Piece(items[0][0], items[-1][0], rows[-1]["recorded_at"], items)
