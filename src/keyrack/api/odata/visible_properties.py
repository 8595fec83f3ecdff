"""The properties visible to an option: the resource's own, and those that the request computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyrack.api.odata import names
from keyrack.api.odata.literal_values import refuse_unsupported, unknown_name
from keyrack.api.odata.plan import ComputedProperty, Nested, PlanJoin
from keyrack.api.schema.fields import Relation, Resource

_JOINED = 100  # level of the first joined row: nested subqueries have lower ones, and never shadow it


@dataclass(slots=True)
class View:
    """The properties of the request's rows.

    `has_own`: the resource's own still exist. `is_cut`: `top` or `skip` has removed them, not an aggregation.
    """

    resource: Resource
    computed: dict[str, ComputedProperty | Nested] = field(default_factory=dict[str, ComputedProperty | Nested])
    has_own: bool = True
    is_cut: bool = False
    named_nodes: int = 0  # nodes of named expressions: a whole query has a budget for them
    joins: dict[tuple[int, Relation], PlanJoin] = field(default_factory=dict[tuple[int, Relation], PlanJoin])

    def find(self, place: names.NamePlace) -> tuple[str, ComputedProperty | Nested | None]:
        """The resolved name and the property; None for the resource's own. Raises `BadRequest` for an unknown name."""
        name = place.name
        if (prop := self.computed.get(name)) is not None:
            return name, prop
        exact, lower = names.members(self.resource)
        if self.has_own and name in exact:
            return name, None
        candidates = [other for other in self.computed if other.lower() == name.lower()]
        own = lower.get(name.lower(), [])
        if self.has_own:
            candidates += own
        elif own and not candidates:
            if self.is_cut and isinstance(exact[own[0]], Relation):
                refuse_unsupported(f"The relation '{own[0]}' after top or skip in $apply")
            raise unknown_name(f"'{own[0]}' is not in the result of $apply.", place.position, tuple(self.computed))
        valid_names = (*self.computed, *exact) if self.has_own else self.computed
        right = names.only(candidates, place, names.type_name(self.resource), valid_names)
        return right, self.computed.get(right)

    def join(self, steps: tuple[PlanJoin, ...]) -> int:
        """The level of the row at the end of the steps. Each step is joined only once."""
        parent = 0
        for step in steps:
            joined = self.joins.get((parent, step.relation))
            if joined is None:
                joined = PlanJoin(step.relation, step.target, parent, _JOINED + len(self.joins))
                self.joins[parent, step.relation] = joined
            parent = joined.level
        return parent


def member(
    of: Mapping[str, ComputedProperty | Nested], place: names.NamePlace, owner: str
) -> tuple[str, ComputedProperty | Nested]:
    """The named member of an object. Raises `BadRequest`."""
    name = place.name
    if (prop := of.get(name)) is not None:
        return name, prop
    right = names.only([other for other in of if other.lower() == name.lower()], place, owner, of)
    return right, of[right]
