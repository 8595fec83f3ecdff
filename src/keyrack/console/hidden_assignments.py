"""Hidden assignments: times at which users outside a visit's groups have cars."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from keyrack.console.paged_fetch import count_of, parts_of, rows_of
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

MOST_REMOVED = 1_000  # hidden assignments of a car that are counted
CURRENT, PAST = "(end eq null or end gt now())", "end le now()"
SOMEBODY = N_("A person outside your groups")


class RemovedAssignments(NamedTuple):
    """The numbers of removed assignments: current and upcoming ones that end, and past ones that are deleted."""

    ending: int
    past: int


async def hidden_assignments(visit: Visit, cars: Sequence[int], condition: str, most: int) -> list[dict[str, Any]]:
    """The first hidden assignments of these cars that match the condition.

    They have the shape of assignments without an id and a user. There are none for a visit that sees the whole fleet.
    """
    if not visit.is_limited:
        return []
    rows: list[dict[str, Any]] = []
    for some in parts_of(visit, cars):
        query = {"$filter": f"carId in {some} and {condition}", "$orderby": "start,carId"}
        rows += (await rows_of(visit, "/hidden-assignments", query, most))[0]
    return [{**row, "id": None, "userId": None, "user": None, "isHidden": True} for row in rows]


async def removed_with_car(visit: Visit, car: int) -> RemovedAssignments:
    """The assignments that are removed with a car or its box, including hidden ones."""
    ending, past = await asyncio.gather(*(_number(visit, car, condition) for condition in (CURRENT, PAST)))
    return RemovedAssignments(ending, past)


async def _number(visit: Visit, car: int, condition: str) -> int:
    seen = await count_of(visit, "/assignments", f"carId eq {car} and {condition}")
    return seen + len(await hidden_assignments(visit, [car], condition, MOST_REMOVED))
