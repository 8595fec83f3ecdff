"""In charge of replaying a log against the tables: what it says last of each resource is what stands there now.

Whoever changes a row while the triggers are switched off is found out by nothing else. The log and what has no number
yet are read together with the rows, in one snapshot, resource by resource, so one at a time is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple, cast

from keyrack.changelog.record_format import decode
from keyrack.db.connection import Connection, Row

PIECE = 1_000  # rows that are fetched at a time
UNNUMBERED = 1 << 62  # above every number

# The state of a resource stands behind what the log says of it. Whether a part of a person was erased or never was is
# told by the record alone
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
Item = tuple[str, str]  # what is in a group: the part, and its member as JSON


class ReplayDifference(Exception):
    """The first resource that is not what the log says, and why."""

    def __init__(self, resource: str, id: str, member: str | None, reason: str) -> None:
        super().__init__(f"{resource} {id}: {reason}.")
        self.resource = resource
        self.id = id
        self.member = member
        self.reason = reason


@dataclass
class AuditResult:
    """How many resources were compared: `whole`, all of it; `in_part`, what the log still says; `unsaid`, of which it
    says nothing, since they are older than it, and which are taken as they are."""

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
    """What the log says of one resource, and what there is of it."""

    resource: str
    id: str
    existence: _LastState | None = None  # whether it is there; None where the log says nothing
    is_whole: bool = False  # it was made in the log, and nothing that was said since was erased
    members: dict[str, _LastState] = field(default_factory=dict[str, _LastState])
    items: dict[Item, _LastState] = field(default_factory=dict[Item, _LastState])
    row: Members | None = None
    stored_items: set[Item] = field(default_factory=set[Item])

    def take(self, row: Row) -> None:
        """The next that is known of it."""
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
        """Something was changed, and nobody knows any more what."""
        self.members.clear()
        self.items.clear()
        self.is_whole = False

    def compare(self) -> None:
        """Raises `ReplayDifference`."""
        if self.existence is not None and self.existence.value is not (self.row is not None):
            be = (
                "is not there, and {} says that it is"
                if self.existence.value
                else "is there, and {} says that it is not"
            )
            raise self._differs(None, be.format(self.existence))
        if self.row is not None:
            self._compare_members(self.row)
        for item in sorted(self.stored_items | self.items.keys()):
            state = self.items.get(item)
            if state is not None and state.value is not (item in self.stored_items):
                be = "is not in it, and {} says that it is" if state.value else "is in it, and {} says that it is not"
                raise self._differs(item[0], f"`{item[0]}` {item[1]} {be.format(state)}")
            if state is None and self.is_whole:
                raise self._differs(item[0], f"`{item[0]}` {item[1]} is in it, and no change says so")

    def _compare_members(self, row: Members) -> None:
        for name, state in sorted(self.members.items()):
            if _plain(row.get(name)) != _plain(state.value):
                raise self._differs(name, f"its `{name}` is not what {state} says")
        if self.is_whole and (more := sorted(row.keys() - self.members.keys())):
            raise self._differs(more[0], f"it has a `{more[0]}`, and no change says so")

    def _differs(self, member: str | None, difference: str) -> ReplayDifference:
        return ReplayDifference(self.resource, self.id, member, difference if member else f"it {difference}")

    def count(self, result: AuditResult) -> None:
        if self.row is not None:
            result.whole += self.is_whole
            result.in_part += not self.is_whole and (self.existence is not None or bool(self.items))
            result.unsaid += not self.is_whole and self.existence is None and not self.items


async def replay(sql: Connection, customer: int, report: Callable[[int], None]) -> AuditResult:
    """Compare a customer's rows with what the log says last of them; customer 0 is the installation.

    In a transaction that shows one moment (`export_reader.SNAPSHOT`). `report` hears how many rows were read. Raises
    `ReplayDifference` for the first resource that is another one.
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
    """What was put into something: a member alone, as `carId`."""
    ((name, value),) = members.items()
    return name, json.dumps(value)


def _plain(value: Any) -> Any:
    """Without the members that have no value: a creation leaves them out."""
    if isinstance(value, dict):
        members = cast("Members", value)
        return {name: _plain(member) for name, member in members.items() if member is not None}
    return value
