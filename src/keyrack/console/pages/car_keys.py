"""Keys of a car that open its box without a network: person, phone and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.local_times import instant, utc
from keyrack.console.paged_fetch import rows_with
from keyrack.console.pages.boxes import BoxView, box_of
from keyrack.core.errors import NotFound
from keyrack.http.page_router import Visit

FEW, MOST = 20, 200  # rows at first, and on request; a note has the number of the others
ALL = "all"
CONFIRMED = timedelta(days=1)  # how long a revocation is shown after the box has it
# Revoked keys first, those that no box accepts last
ORDER = "isKnownToBox,isRevoked desc,until desc"
# A phone renews a key before it expires: the keys of one phone for one assignment are one line
LINES = (
    "filter(opensUntil gt {now} or (isKnownToBox eq true and revoked gt {lately}))"
    "/compute(revoked ne null as isRevoked)"
    "/groupby((userId,deviceId,deviceName,assignmentId,isRevoked,isKnownToBox,canPowerLossExtend),"
    "aggregate(issued with min as since,begins with min as from,revoked with min as revokedAt,"
    "opensUntil with max as until))"
)


@dataclass(frozen=True, slots=True)
class CarKeyRow:
    """The keys of a phone for one assignment.

    `state` is `in-force`, `coming`, `revoked` if a box may still accept it, or `known` if the box has the revocation.
    `user` is None if the person is gone.
    """

    state: str
    userId: int | None
    user: Mapping[str, Any] | None
    phone: str | None
    since: str
    begins: str
    revoked: str | None
    until: str
    can_power_loss_extend: bool


@dataclass(frozen=True, slots=True)
class CarKeys:
    """The shown keys of a car, and the number of further lines.

    `box` is read only if there are no keys: None if the car has no box, or the visit lacks the permission.
    """

    lines: list[CarKeyRow]
    more: int
    all: bool
    box: BoxView | None
    knows_boxes: bool

    @property
    def revoked(self) -> bool:
        """Whether a revoked key may still open the box."""
        return any(line.state == "revoked" for line in self.lines)


async def keys_of(visit: Visit, car: int) -> CarKeys:
    """The keys of the car that still open, or were revoked lately."""
    now = datetime.now(UTC)
    whole = visit.query_value("keys") == ALL
    query = {
        "$apply": LINES.format(now=utc(now), lately=utc(now - CONFIRMED)), "$orderby": ORDER,
        "$top": str(MOST if whole else FEW), "$count": "true",
    }  # fmt: skip
    reply = await visit.call("GET", "/cars/{carId}/keys", car, query=query)
    rows: list[dict[str, Any]] = reply.json
    users = await _users(visit, (row["userId"] for row in rows if row["userId"] is not None))
    lines = [_line(row, users, utc(now)) for row in rows]
    knows = visit.may(Permission.BOXES_READ) and visit.may(Permission.PRODUCTS_READ)
    box = await box_of(visit, car) if knows and not lines else None
    return CarKeys(lines, reply.total - len(lines), whole, box, knows)


async def _users(visit: Visit, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """The existing and visible users."""
    wanted = sorted(set(ids))
    if not wanted or not visit.may(Permission.USERS_READ):
        return {}
    try:
        rows = await rows_with(visit, "/users", wanted, {"$select": "id,emailAddress,userData"})
    except NotFound:  # no such row
        return {}
    return {row["id"]: row for row in rows}


def _line(row: Mapping[str, Any], users: Mapping[int, Mapping[str, Any]], now: str) -> CarKeyRow:
    if row["isRevoked"]:
        state = "known" if row["isKnownToBox"] else "revoked"
    else:
        state = "coming" if instant(row["from"]) > instant(now) else "in-force"
    return CarKeyRow(
        state, row["userId"], users.get(row["userId"]), row["deviceName"], row["since"], row["from"],
        row["revokedAt"], row["until"], row["canPowerLossExtend"],
    )  # fmt: skip
