"""In charge of what the feed tells of a customer's log: how far it goes, whether it can be gone on from a cursor, and
pieces of it, in the order of the numbers and without a gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.schema import CHANGE
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Gone
from keyrack.db.connection import Row, Statements
from keyrack.db.named_parameters import compile_statement

CURSOR_GONE = ErrorCode(
    "cursor-gone",
    "The log of changes cannot be gone on from there: it has the numbers {oldest} to {newest}, of epoch {epoch}.",
    "Note `newest` and `epoch`, read anew what you keep a copy of, then go on behind that number.",
)
# What answers tell of the log
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
MOST = 100  # changes of one piece
LARGE = 65_536  # bytes of a piece: its last change may have more

# What is kept of earlier epochs is listed, and not gone on from
LOOK: LiteralString = """
select epoch, first_id, greatest(oldest_id, first_id) as oldest_id, last_id, last_recorded_at from change_log
where customer_id = $1
"""
# Who knows when the change before was recorded looks into no older month
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
    """How far a customer's log goes: from `oldest` to `newest`, which was recorded at `recorded`. A log without a
    change has neither an epoch nor a number, and begins with 1. Its epoch began with `first`."""

    epoch: UUID | None = None
    oldest: int = 1
    newest: int = 0
    recorded: datetime = LONG_AGO
    first: int = 1

    def as_json(self) -> dict[str, object]:
        """The same for programs, as JSON."""
        epoch = None if self.epoch is None else str(self.epoch)
        return {"epoch": epoch, "oldest": self.oldest, "newest": self.newest}

    def headers(self) -> dict[str, str]:
        """The same as headers."""
        values = {EPOCH: self.epoch, OLDEST: self.oldest, NEWEST: self.newest}
        return {name: str(value) for name, value in values.items() if value is not None}

    def has(self, number: int | None, epoch: UUID | None) -> bool:
        """Whether the log, if it is of this epoch, can be gone on from behind the change with this number."""
        return (epoch is None or epoch == self.epoch) and (number is None or self.oldest - 1 <= number <= self.newest)

    def check(self, number: int | None, epoch: UUID | None) -> None:
        """Raises `Gone` unless it can."""
        if not self.has(number, epoch):
            reason = CURSOR_GONE.format(oldest=self.oldest, newest=self.newest, epoch=self.epoch or "none")
            raise Gone(reason, self.as_json(), self.headers())


@dataclass(frozen=True, slots=True)
class Piece:
    """Some changes: the number of the first and the last one, when that was recorded, and each as JSON in a line."""

    first: int
    last: int
    recorded: datetime
    items: tuple[tuple[int, str], ...]


async def load_extent(statements: Statements, customer: int) -> Extent:
    """How far the log goes now."""
    row = await statements.fetchrow(LOOK, customer)
    if row is None:
        return Extent()
    return Extent(row["epoch"], row["oldest_id"], row["last_id"], row["last_recorded_at"] or LONG_AGO,
                  row["first_id"])  # fmt: skip


async def read(
    statements: Statements, customer: int, behind: int, until: int, recorded: datetime = LONG_AGO
) -> Piece | None:
    """The first changes `behind` a number and up to another one; None where there is none. `recorded` is when the
    change with that number was recorded, or an earlier time."""
    arguments = READ.arguments(customer=customer, behind=behind, until=until, recorded=recorded, most=MOST, size=LARGE)
    rows: list[Row] = await statements.fetch(READ.sql, *arguments)
    if not rows:
        return None
    items = tuple([(row["change_id"], row["item"]) for row in rows])
    return Piece(items[0][0], items[-1][0], rows[-1]["recorded_at"], items)
