"""In charge of pages whose keys are found first, as SQL: what is shown of their rows is read for these alone."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.odata import IndexOrder
from keyrack.api.schema.fields import Resource
from keyrack.db.named_parameters import NUMBERS

BEYOND: LiteralString = "200"  # keys that are looked at beyond a page: some of them are no rows of it


class PrimaryKeySql:
    """The key of a resource's rows `t`: `selected` as `k0` and so on, and when it is the `same` as that of row `g`."""

    def __init__(self, resource: Resource) -> None:
        self.key: tuple[LiteralString, ...] = tuple([resource.value(name, "t") for name in resource.key])
        names: list[LiteralString] = ["k" + NUMBERS[number] for number in range(len(self.key))]
        pairs = tuple(zip(self.key, names, strict=True))
        self.selected: LiteralString = ", ".join([key + " as " + name for key, name in pairs])
        self.same: LiteralString = " and ".join([key + " = g." + name for key, name in pairs])


def page_rows(page: LiteralString, row: LiteralString) -> LiteralString:
    """The rows of the page in its order; `row` is a SELECT of the one whose key is that of `g`."""
    numbered: LiteralString = "select b.*, row_number() over () as number from (" + page + ") b"
    return "select f.* from (" + numbered + ") g, lateral (" + row + " limit 1) f order by g.number"


def is_index_candidate(lead: IndexOrder, keys: PrimaryKeySql) -> LiteralString:
    """Whether a row is one of those that the index gives first, and has a value."""
    return keys.key[0] + " in (select k0 from near) and " + lead.valued


def page_by_index(lead: IndexOrder, first: LiteralString, page: LiteralString) -> LiteralString:
    """The keys of the page: those of `first`, ordered, if they reach to its end, for none is before them; else, as
    where few have a value or a condition leaves few, those of the whole `page`.

    PostgreSQL runs but the one of them that is needed: the condition of each is known beforehand.
    """
    reached: LiteralString = "(select count(*) from first) "
    return (
        "with near as materialized (" + lead.keys + " limit " + lead.end + " + " + BEYOND + "),"
        " first as materialized (" + first + " limit " + lead.end + ")"
        " select * from (select * from first" + lead.offset + ") a where " + reached + ">= " + lead.end
        + " union all select * from (" + page + ") b where " + reached + "< " + lead.end
    )  # fmt: skip
