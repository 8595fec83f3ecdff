"""In charge of what a query string comes to: the parts of a statement, and the values of its parameters."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from keyrack.api.odata.apply_sql import ApplySource
from keyrack.api.odata.index_order import IndexOrder
from keyrack.api.odata.keyset import KeysetColumn
from keyrack.api.schema.fields import Resource


class QuerySql(NamedTuple):
    """The parts of a statement. Queries that differ in their values alone have the same."""

    columns: LiteralString  # the select list in place of `Resource.json_columns`
    value: bool  # whether that is one column, `value`, which is the row as JSON
    where: LiteralString  # "" or a predicate; the tenant's stands beside it
    order: LiteralString  # of ORDER BY, the key appended; "" where there is no key
    limit: LiteralString  # "" or LIMIT and OFFSET
    has_top: bool
    count: bool  # pyright: ignore[reportIncompatibleMethodOverride] - `$count=true`
    walk: tuple[KeysetColumn, ...]  # the criteria of `order` where rows can be gone through by it; else none
    # `columns` show nothing but values of the resource's own fields, and `walk` leads to the rows: their values tell
    # them apart for less than their JSON. What is expanded, computed, or has no key, is dug out of something larger,
    # and of rows that are sorted many more are read than shown
    plain: bool
    # The keys of the page's rows are found first, and what is shown of them then: of rows that are skipped,
    # sorted or perhaps left out many more are read than shown, and PostgreSQL would make all of them
    apart: bool
    lead: IndexOrder | None  # what leads to the first rows of such a page
    source: ApplySource | None  # where the rows come from and how they are shown, with `$apply` and `$compute`
    length: int  # characters of the parts that a client can make long


class Query(NamedTuple):
    """The query of a resource that a query string describes."""

    sql: QuerySql
    args: tuple[object, ...]  # the values of `:q0`, `:q1` and so on
    top: int | None
    skip: int
    related_resources: frozenset[Resource]  # whose rows are read through relations

    @property
    def parameters(self) -> dict[str, object]:
        """The values by the names of the parameters."""
        values = {f"q{number}": value for number, value in enumerate(self.args)}
        values["top"] = self.top
        values["skip"] = self.skip
        return values
