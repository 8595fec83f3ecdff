"""In charge of which part of a fleet somebody is for, as forms ask for it: the whole fleet, or groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keyrack.console.languages import N_
from keyrack.console.rendering import gettext
from keyrack.http.pages import Visit

MOST = 200  # groups to choose from; who has more is told so
WHOLE, SOME = "whole", "groups"
NONE_CHOSEN = N_("Choose at least one group, or the whole fleet.")
CONTRARY = N_("Groups are ticked, and the whole fleet is chosen. Choose one of both.")
NOTHING_SAID = N_("Choose the whole fleet, or groups.")


class FleetPart(NamedTuple):
    """What a form shows: the groups there are, what is chosen of both, and whether there are more groups."""

    groups: Sequence[Mapping[str, Any]]
    part: str
    chosen: frozenset[int]
    more: bool

    @property
    def value(self) -> list[int] | None:
        """For the API: None for the whole fleet."""
        return sorted(self.chosen) if self.part == SOME else None


async def of_groups(visit: Visit, chosen: Sequence[int] | None) -> FleetPart:
    """What is so now."""
    return await _part(visit, WHOLE if chosen is None else SOME, frozenset(chosen or ()))


async def sent(visit: Visit) -> FleetPart:
    """What was filled in."""
    numbers = visit.form.get("groups", [])
    return await _part(visit, visit.sent("part"), frozenset(int(one) for one in numbers if one.isdecimal()))


def wrong(visit: Visit, part: FleetPart) -> str:
    """What is wrong with it, in words, or ""."""
    if part.part not in (WHOLE, SOME):
        return gettext(visit, NOTHING_SAID)
    if part.part == WHOLE and part.chosen:  # what gives more is no guess
        return gettext(visit, CONTRARY)
    return gettext(visit, NONE_CHOSEN) if part.part == SOME and not part.chosen else ""


async def _part(visit: Visit, part: str, chosen: frozenset[int]) -> FleetPart:
    query = {"$select": "id,name", "$orderby": "name", "$top": str(MOST + 1)}
    rows = (await visit.call("GET", "/groups", query=query)).json
    shown = rows[:MOST]
    if missing := sorted(chosen - {row["id"] for row in shown}):
        named = f"id in ({','.join(map(str, missing))})"
        shown += (await visit.call("GET", "/groups", query={"$select": "id,name", "$filter": named})).json
    return FleetPart(shown, part, chosen, len(rows) > MOST)
