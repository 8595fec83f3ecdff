"""SQL of pages whose rows belong to members of a group scope.

Events belong to cars, for example. A join of the scope and the events can read all events of the customer, or all of
the cars, before it has a page. PostgreSQL does not know how many events each car has, and how many of the newest are in
the scope. The two ways here read a bounded number of rows, and give the same page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import LiteralString

from keyrack.api.odata import FAR, SKIP, KeysetColumn, Query, QuerySql
from keyrack.api.schema.fields import MemberRows

# Rows of the customer to read for each row up to the end of the page, and beyond. A fifth of them must be in the scope
READ_PER_ROW: LiteralString = "5"
READ_BEYOND: LiteralString = "100"
# Below and above all values of a sort criterion, by its cast
_BOUNDS: Mapping[LiteralString, tuple[LiteralString, LiteralString]] = {
    "::int8": ("(-9223372036854775807)::int8", "9223372036854775807::int8"),
    "::timestamptz": ("'-infinity'::timestamptz", "'infinity'::timestamptz"),
}


class PageSource(Enum):
    """The rows among which a statement finds a page."""

    SCOPE = "the scope, joined with the rows"
    FIRST_ROWS = "the customer's first rows in the order, which suffice if many are in the scope"
    EACH_MEMBER = "the first rows of each member of the scope"


def is_supported(query: Query) -> bool:
    """Whether an index finds the page among the customer's first rows."""
    walk = query.sql.walk
    return bool(walk) and walk[0].cast in _BOUNDS and query.sql.source is None and query.skip <= FAR


def otherwise(query: QuerySql) -> PageSource:
    """The page source if the customer's first rows do not suffice.

    The first rows of each member are found if the filter only bounds the order. With another filter, another index may
    be better, such as that of a user's events.
    """
    return PageSource.EACH_MEMBER if query.is_range else PageSource.SCOPE


@dataclass(frozen=True, slots=True)
class ScopedPageSql:
    """SQL of a page with the alias `t`. `size` is the maximum number of its rows."""

    members: MemberRows
    query: QuerySql
    size: LiteralString

    def rows(self, source: PageSource) -> LiteralString:
        """A SELECT of the page's rows."""
        found = self._first_rows() if source is PageSource.FIRST_ROWS else self._each_member()
        limit: LiteralString = " limit " + self.size + (" offset " + SKIP if self._is_skipped else "")
        return found + " order by " + self.query.order + limit

    def is_complete(self, count: LiteralString) -> LiteralString:
        """Whether the customer's first rows had the whole page.

        `count` is the number of its rows.
        """
        further = self._sorted("select", self._range_filter, " offset " + self._read + " limit 1")
        return "(" + count + " >= " + self.size + " or not exists (" + further + "))"

    def count(self) -> LiteralString:
        """A SELECT of the number of rows in the scope.

        It reads all rows of the customer. Without `is true`, PostgreSQL might read those of each member on their own.
        """
        members: LiteralString = "(" + self.members.is_of_member.format(t="t") + ") is true"
        conditions: list[LiteralString] = [self.members.scope.format(t="t"), members, *self._filter]
        if self.members.condition:
            conditions.append(self.members.condition.format(t="t"))
        return "select count(*) from " + self.members.table.format(t="t") + " where " + " and ".join(conditions)

    def _first_rows(self) -> LiteralString:
        first = self._sorted("select t.*", self._range_filter, " limit " + self._read)
        conditions: list[LiteralString] = [self.members.is_in_scope.format(t="t"), *self._filter]
        return "select t.* from (" + first + ") t where " + " and ".join(conditions)

    def _each_member(self) -> LiteralString:
        """A SELECT of rows of the members with the best rows.

        It first reads the best row of each member. If the page has 100 rows, none comes after the 100 best ones.
        """
        criterion = self.query.walk[0]
        in_scope: list[LiteralString] = [self.members.member.format(t="t") + " = m.id", *self._filter]
        if self.members.condition:
            in_scope.append(self.members.condition.format(t="t"))
        best = self._sorted("select " + criterion.sql + " as value", in_scope, " limit 1", criterion)
        direction: LiteralString = " desc" if criterion.descending else ""
        members: LiteralString = (
            "select m.id, best.value from unnest(array(" + self.members.ids + ")) m (id), lateral (" + best + ") best"
            " order by best.value" + direction + " fetch first (" + self._end + ") rows with ties"
        )  # fmt: skip
        rows = self._sorted("select t.*", [*in_scope, self._up_to_last(criterion)], " limit " + self._end)
        return "with m as materialized (" + members + ") select t.* from m, lateral (" + rows + ") t"

    def _up_to_last(self, criterion: KeysetColumn) -> LiteralString:
        """Whether a row comes before the last of the best rows.

        It is true for each row if the best rows do not fill the page.
        """
        lowest, highest = _BOUNDS[criterion.cast]
        last, sign, unbounded = ("min", " >= ", lowest) if criterion.descending else ("max", " <= ", highest)
        value: LiteralString = "(select " + last + "(value) from m having count(*) >= " + self._end + ")"
        return criterion.sql + sign + "(select coalesce(" + value + ", " + unbounded + "))"

    def _sorted(
        self,
        select: LiteralString,
        conditions: list[LiteralString],
        limit: LiteralString,
        criterion: KeysetColumn | None = None,
    ) -> LiteralString:
        """The customer's rows that match the conditions.

        They are in the order of the query, or only of the criterion.
        """
        where: LiteralString = " and ".join([self.members.scope.format(t="t"), *conditions])
        order = self.query.order if criterion is None else criterion.order
        return select + " from " + self.members.table.format(t="t") + " where " + where + " order by " + order + limit

    @property
    def _filter(self) -> list[LiteralString]:
        return ["(" + self.query.where + ")"] if self.query.where else []

    @property
    def _range_filter(self) -> list[LiteralString]:
        """The filter if an index applies it.

        PostgreSQL could read many rows for another one before it has the customer's first rows.
        """
        return self._filter if self.query.is_range else []

    @property
    def _is_skipped(self) -> bool:
        return self.query.limit.endswith(SKIP)

    @property
    def _end(self) -> LiteralString:
        """The number of rows up to the page's last one."""
        return self.size + " + " + SKIP if self._is_skipped else self.size

    @property
    def _read(self) -> LiteralString:
        return "(" + self._end + ") * " + READ_PER_ROW + " + " + READ_BEYOND
