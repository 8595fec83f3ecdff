"""Pages in two steps, as SQL: first the keys, then the columns of these rows alone."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.odata import IndexOrder
from keyrack.api.schema.fields import Resource
from keyrack.db.named_parameters import NUMBERS

BEYOND: LiteralString = "200"  # keys to read beyond a page, because some may not belong to it


class PrimaryKeySql:
    """The key of a resource's rows `t`.

    `selected` is the key as `k0` and so on; `same` compares it with that of row `g`.
    """

    def __init__(self, resource: Resource) -> None:
        self.key: tuple[LiteralString, ...] = tuple([resource.value(name, "t") for name in resource.key])
        names: list[LiteralString] = ["k" + NUMBERS[number] for number in range(len(self.key))]
        pairs = tuple(zip(self.key, names, strict=True))
        self.selected: LiteralString = ", ".join([key + " as " + name for key, name in pairs])
        self.same: LiteralString = " and ".join([key + " = g." + name for key, name in pairs])


def page_rows(page: LiteralString, row: LiteralString) -> LiteralString:
    """The rows of the page in its order. `row` is a SELECT of the row whose key is that of `g`."""
    numbered: LiteralString = "select b.*, row_number() over () as number from (" + page + ") b"
    return "select f.* from (" + numbered + ") g, lateral (" + row + " limit 1) f order by g.number"


def is_index_candidate(lead: IndexOrder, keys: PrimaryKeySql) -> LiteralString:
    """Whether a row is among the index's first entries and has a value."""
    return keys.key[0] + " in (select k0 from near) and " + lead.valued


def page_by_index(lead: IndexOrder, first: LiteralString, page: LiteralString) -> LiteralString:
    """The keys of the page.

    They are those of `first`, ordered, if these fill the page: no other row precedes them. Otherwise, if few rows have
    a value or match a condition, they are those of the whole `page`. PostgreSQL runs only the needed one, because the
    condition of each is known beforehand.
    """
    reached: LiteralString = "(select count(*) from first) "
    return (
        "with near as materialized (" + lead.keys + " limit " + lead.end + " + " + BEYOND + "),"
        " first as materialized (" + first + " limit " + lead.end + ")"
        " select * from (select * from first" + lead.offset + ") a where " + reached + ">= " + lead.end
        + " union all select * from (" + page + ") b where " + reached + "< " + lead.end
    )  # fmt: skip
