"""The form field for a part of the fleet: the whole fleet, or groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from keyrack.console.paged_fetch import rows_with
from keyrack.console.rendering import gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

MOST = 200  # groups to choose from; the form shows a note if there are more
NAMED = {"$select": "id,name"}
WHOLE, SOME = "whole", "groups"
NONE_CHOSEN = N_("Choose at least one group, or the whole fleet.")
CONTRARY = N_("You chose both groups and the whole fleet. Choose one of them.")
NOTHING_SAID = N_("Choose the whole fleet, or groups.")


class FleetPart(NamedTuple):
    """The values of the field: the groups, the choice, and whether there are more groups."""

    groups: Sequence[Mapping[str, Any]]
    part: str
    chosen: frozenset[int]
    more: bool

    @property
    def value(self) -> list[int] | None:
        """The value for the API: None for the whole fleet."""
        return sorted(self.chosen) if self.part == SOME else None


async def of_groups(visit: Visit, chosen: Sequence[int] | None) -> FleetPart:
    """The field with the current choice."""
    return await _part(visit, WHOLE if chosen is None else SOME, frozenset(chosen or ()))


async def sent(visit: Visit) -> FleetPart:
    """The field with the choice of the form."""
    numbers = visit.form.get("groups", [])
    return await _part(
        visit, visit.form_value("part"), frozenset(int(number) for number in numbers if number.isdecimal())
    )


def wrong(visit: Visit, part: FleetPart) -> str:
    """The error of the field, or ""."""
    if part.part not in (WHOLE, SOME):
        return gettext(visit, NOTHING_SAID)
    if part.part == WHOLE and part.chosen:  # both are chosen: the wider one is not assumed
        return gettext(visit, CONTRARY)
    return gettext(visit, NONE_CHOSEN) if part.part == SOME and not part.chosen else ""


async def names(visit: Visit, rows: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """The names of the groups to which accounts or invitations are limited."""
    ids = sorted({id for row in rows for id in row["groups"] or ()})
    return {row["id"]: row["name"] for row in await rows_with(visit, "/groups", ids, NAMED)}


async def _part(visit: Visit, part: str, chosen: frozenset[int]) -> FleetPart:
    rows = (await visit.call("GET", "/groups", query={**NAMED, "$orderby": "name", "$top": str(MOST + 1)})).json
    shown = rows[:MOST]
    if missing := sorted(chosen - {row["id"] for row in shown}):
        shown += await rows_with(visit, "/groups", missing, NAMED)
    return FleetPart(shown, part, chosen, len(rows) > MOST)
