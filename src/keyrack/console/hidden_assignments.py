"""Hidden assignments: the times at which users outside of a visit's groups have cars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyrack.console.languages import N_
from keyrack.console.paged_fetch import parts_of, rows_of
from keyrack.http.page_router import Visit

MOST_ENDING = 1_000  # hidden assignments of a car that are counted
CURRENT = "(end eq null or end gt now())"
SOMEBODY = N_("Somebody outside your groups")


async def hidden_assignments(visit: Visit, cars: Sequence[int], condition: str, most: int) -> list[dict[str, Any]]:
    """The first hidden assignments of these cars that fulfil the condition.

    They have the shape of assignments without an id and a user. There are none for a visit that sees the whole fleet.
    """
    if not visit.is_limited:
        return []
    rows: list[dict[str, Any]] = []
    for some in parts_of(visit, cars):
        query = {"$filter": f"carId in {some} and {condition}", "$orderby": "start,carId"}
        rows += (await rows_of(visit, "/hidden-assignments", query, most))[0]
    return [{**row, "id": None, "userId": None, "user": None, "isHidden": True} for row in rows]


async def number_ending(visit: Visit, car: int) -> int:
    """How many assignments in force or to come end with a car or its box, hidden ones included."""
    query = {"$filter": f"carId eq {car} and {CURRENT}", "$top": "0", "$count": "true"}
    seen = (await visit.call("GET", "/assignments", query=query)).total
    return seen + len(await hidden_assignments(visit, [car], CURRENT, MOST_ENDING))
