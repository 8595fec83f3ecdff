"""Compares the rows of tables with their last state in the log.

No other check detects a change of a row while the triggers are disabled. One snapshot reads the log, the unnumbered
changes and the rows, sorted by resource, so that only one resource is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple, cast

from keyrack.changelog.record_format import decode
from keyrack.db.connection import Connection, Row

PIECE = 1_000  # rows per batch
UNNUMBERED = 1 << 62  # above every number

# The row of a resource comes after its changes. Only the record shows whether a personal part was erased or never
# existed
BOTH: LiteralString = """
select resource, resource_id, place, kind, part, members::text, person::text, is_erased, record from (
  select resource, resource_id, change_id as place, kind, null as part, coalesce(after, before) as members,
    coalesce(nullif(person -> 'after', 'null'), person -> 'before') as person,
    content_salt is null and coalesce(before, after) is null as is_erased,
    case when person_salt is null and resource in ('user', 'manager') then record end as record
  from change where customer_id = $1 and resource not in ('log', 'permission')
    and change_id >= coalesce((select oldest_id from change_log where customer_id = $1), 1)
  union all
  select resource, resource_id, seq + $2, kind, null, coalesce(after, before), null, false, null
  from change_inbox where customer_id = $1 and resource not in ('log', 'permission')
  union all
  select resource, resource_id, null, null, part, members, null, false, null
  from recorded_state where customer_id = $1
) t order by resource collate "C", resource_id collate "C", place nulls last
"""

Members = dict[str, Any]
Item = tuple[str, str]  # a member of a group: the part, and its value as JSON


class ReplayDifference(Exception):
    """The first resource that differs from the log, and how."""

    def __init__(self, resource: str, id: str, member: str | None, reason: str) -> None:
        super().__init__(f"{resource} {id}: {reason}.")
        self.resource = resource
        self.id = id
        self.member = member
        self.reason = reason


@dataclass
class AuditResult:
    """The numbers of resources that were compared.

    - `whole`: completely.
    - `in_part`: as far as the log still describes them.
    - `unsaid`: not at all, because they are older than the log; they are accepted unchecked.
    """

    whole: int = 0
    in_part: int = 0
    unsaid: int = 0


class _LastState(NamedTuple):
    value: Any
    place: int

    def __str__(self) -> str:
        return "a change that has no number yet" if self.place >= UNNUMBERED else f"change {self.place}"


@dataclass
class _Resource:
    """The state of one resource in the log, and in its table."""

    resource: str
    id: str
    existence: _LastState | None = None  # whether it exists; None if the log does not say
    is_whole: bool = False  # it was created in the log, and no later change was erased
    members: dict[str, _LastState] = field(default_factory=dict[str, _LastState])
    items: dict[Item, _LastState] = field(default_factory=dict[Item, _LastState])
    row: Members | None = None
    stored_items: set[Item] = field(default_factory=set[Item])

    def take(self, row: Row) -> None:
        """Add the next change or row of the resource."""
        members: Members = json.loads(row["members"] or "{}")
        if row["place"] is not None:
            self._apply_change(row, members | json.loads(row["person"] or "{}"))
        elif row["part"]:
            self.stored_items.add(_item(members))
        else:
            self.row = members

    def _apply_change(self, row: Row, members: Members) -> None:
        word, place = row["kind"].partition(".")[2], row["place"]
        is_erased = row["is_erased"] or (row["record"] is not None and decode(row["record"]).person is not None)
        if word.endswith(("Added", "Removed")):
            if is_erased:
                self._forget()
            else:
                self.items[_item(members)] = _LastState(word.endswith("Added"), place)
            return
        is_made, is_gone = word in ("created", "granted"), word in ("deleted", "withdrawn")
        self.existence = _LastState(not is_gone, place)
        if is_made or is_gone:
            self.members.clear()
            self.is_whole = is_made
        if is_erased:
            self._forget()
        elif not is_gone:
            self.members |= {name: _LastState(value, place) for name, value in members.items()}

    def _forget(self) -> None:
        """Drop the known state after a change whose content is erased."""
        self.members.clear()
        self.items.clear()
        self.is_whole = False

    def compare(self) -> None:
        """Compare the row with the log. Raises `ReplayDifference`."""
        if self.existence is not None and self.existence.value is not (self.row is not None):
            be = (
                "is not there, but {} says that it is"
                if self.existence.value
                else "is there, but {} says that it is not"
            )
            raise self._differs(None, be.format(self.existence))
        if self.row is not None:
            self._compare_members(self.row)
        for item in sorted(self.stored_items | self.items.keys()):
            state = self.items.get(item)
            if state is not None and state.value is not (item in self.stored_items):
                be = "is not in it, but {} says that it is" if state.value else "is in it, but {} says that it is not"
                raise self._differs(item[0], f"`{item[0]}` {item[1]} {be.format(state)}")
            if state is None and self.is_whole:
                raise self._differs(item[0], f"`{item[0]}` {item[1]} is in it, but no change says so")

    def _compare_members(self, row: Members) -> None:
        for name, state in sorted(self.members.items()):
            if _plain(row.get(name)) != _plain(state.value):
                raise self._differs(name, f"its `{name}` is not what {state} says")
        if self.is_whole and (more := sorted(row.keys() - self.members.keys())):
            raise self._differs(more[0], f"it has a `{more[0]}`, but no change says so")

    def _differs(self, member: str | None, difference: str) -> ReplayDifference:
        return ReplayDifference(self.resource, self.id, member, difference if member else f"it {difference}")

    def count(self, result: AuditResult) -> None:
        if self.row is not None:
            result.whole += self.is_whole
            result.in_part += not self.is_whole and (self.existence is not None or bool(self.items))
            result.unsaid += not self.is_whole and self.existence is None and not self.items


async def replay(sql: Connection, customer: int, report: Callable[[int], None]) -> AuditResult:
    """Compare a customer's rows with their last state in the log; customer 0 is the installation.

    The caller's transaction must show one moment (`export_reader.SNAPSHOT`). `report` gets the number of rows read so
    far. Raises `ReplayDifference` for the first resource that differs.
    """
    await sql.lift_timeouts()
    await sql.declare(BOTH, customer, UNNUMBERED)
    result, current, count = AuditResult(), None, 0
    while rows := await sql.fetch_batch(PIECE):
        for row in rows:
            key = (row["resource"], row["resource_id"])
            if current is None or key != (current.resource, current.id):
                _end(current, result)
                current = _Resource(*key)
            current.take(row)
        count += len(rows)
        report(count)
    _end(current, result)
    return result


def _end(resource: _Resource | None, result: AuditResult) -> None:
    if resource is not None:
        resource.compare()
        resource.count(result)


def _item(members: Members) -> Item:
    """The part that was added or removed: a single member, such as `carId`."""
    ((name, value),) = members.items()
    return name, json.dumps(value)


def _plain(value: Any) -> Any:
    """The value without null members, which a creation leaves out."""
    if isinstance(value, dict):
        members = cast("Members", value)
        return {name: _plain(member) for name, member in members.items() if member is not None}
    return value
