"""The compiled query: the parts of a statement, and the values of its parameters."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from keyrack.api.odata.apply_sql import ApplySource
from keyrack.api.odata.index_order import IndexOrder
from keyrack.api.odata.keyset import KeysetColumn
from keyrack.api.schema.fields import Resource


class QuerySql(NamedTuple):
    """The parts of a statement. Queries that differ only in values share them."""

    columns: LiteralString  # the select list instead of `Resource.json_columns`
    value: bool  # whether that is one column, `value`, which is the row as JSON
    where: LiteralString  # "" or a predicate, beside the tenant's
    is_range: bool  # whether `where` is "", or only bounds the first criterion of `walk`
    order: LiteralString  # of ORDER BY, with the key appended; "" without a key
    limit: LiteralString  # "" or LIMIT and OFFSET
    has_top: bool
    count: bool  # pyright: ignore[reportIncompatibleMethodOverride] - `$count=true`
    walk: tuple[KeysetColumn, ...]  # the criteria of `order` if it supports keyset pagination; otherwise empty
    # Whether the version is a hash of the rows' values, which is cheaper than a hash of their JSON. This requires that
    # `columns` are only the resource's own fields, and that `walk` finds the rows. Otherwise PostgreSQL sorts many more
    # rows than it returns, and would compute a version of each
    plain: bool
    # Whether the statement finds the keys of the page's rows first, then their columns. PostgreSQL reads many more
    # skipped, sorted or filtered rows than it returns, and would otherwise compute the columns of all
    apart: bool
    lead: IndexOrder | None  # the index that finds the first rows of such a page
    source: ApplySource | None  # the rows and their JSON, with `$apply` and `$compute`
    length: int  # characters of the parts whose length a client determines


class Query(NamedTuple):
    """The compiled query of a query string for a resource."""

    sql: QuerySql
    args: tuple[object, ...]  # the values of `:q0`, `:q1` and so on
    top: int | None
    skip: int
    related_resources: frozenset[Resource]  # resources that are read through relations

    @property
    def parameters(self) -> dict[str, object]:
        """The values by the names of the parameters."""
        values = {f"q{number}": value for number, value in enumerate(self.args)}
        values["top"] = self.top
        values["skip"] = self.skip
        return values
