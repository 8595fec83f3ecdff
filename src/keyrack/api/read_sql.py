"""Reads as SQL: rows of a resource, optionally of a parent, as JSON built by PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import LiteralString

from keyrack.api import keyset_sql, scoped_page_sql
from keyrack.api.odata import SKIP, TOP, Query, QuerySql, SegmentSql, Shape
from keyrack.api.schema.fields import Resource
from keyrack.api.scoped_page_sql import PageSource, ScopedPageSql
from keyrack.db.named_parameters import NUMBERS, NamedStatement, compile_statement

STATEMENTS = 2_000  # cached statements per process
LONGEST_KEPT = 8_000  # maximum characters of a cached statement, so that long ones cannot exhaust the memory
_OF_ITEM: LiteralString = "hashtextextended(item, 0)"  # the version of the representation `item`
_ROWS: LiteralString = ":rows::int8"
_SIZE: LiteralString = ":size::int8"
PAGE: LiteralString = "1000"  # rows of a paged read without `$top` (odata rules, "Limits")
_ON_PAGE: LiteralString = "place <= " + PAGE  # of a page, one more row is read: whether rows follow


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent of the requested rows. `link` joins `{t}` (the rows) to `{p}` (the parent)."""

    resource: Resource
    link: LiteralString


@dataclass(frozen=True, eq=False)
class Select:
    """The statement of a read: one row, or none if the parent does not exist.

    Its columns:

    - `body`: the JSON. Null if a single row does not exist, or if a list is too long for one chunk.
    - `version`: 64 bits that differ if the response differs. Null for a list that is empty or has too many rows.
    - `there`, if needed: whether rows exist before the query options filter them.
    - `total`, if needed: the number of rows without `$top` and `$skip`.
    - `more`, if needed: whether rows follow after the page.
    - `is_complete`, of the page source `FIRST_ROWS`: whether the row is valid, because this source had the whole page.

    The tenant's predicate is outside of all client conditions. Its parameters are those of the resource, `:id0` and so
    on for the path's ids, and those of the query.
    """

    resource: Resource
    is_single: bool = False
    parent: Parent | None = None
    order_by: LiteralString = ""
    paged: bool = False
    tells_absence: bool = False  # an empty list is a 404, unless a filter made it empty
    reporter: Resource | None = None  # its row may exist while the requested row does not exist yet
    page_source: PageSource = PageSource.SCOPE

    @property
    def shape(self) -> Shape:
        """The query options that it supports."""
        if self.is_single:
            return Shape.ONE
        return Shape.COLLECTION if self.resource.scalar is None else Shape.SCALARS

    @property
    def separator(self) -> LiteralString:
        """The separator of two rows, as in PostgreSQL's `json_agg`."""
        return ", \n " if self.resource.scalar is None else ", "

    def statement(self, query: QuerySql, *, has_versions: bool = False) -> NamedStatement:
        """The statement with query options.

        A list takes `:rows`, its maximum number of rows, and `:size`, the maximum bytes of a row. With `has_versions`
        it also takes `:versions`: its JSON is null if the list has one of them.
        """
        return _compiled(Select._statement, self, query, has_versions)

    def can_page_by(self, query: Query) -> bool:
        """Whether `from_source` supports other page sources for the query."""
        if self.parent is not None or self.resource.member_rows is None:
            return False
        return (query.sql.has_top or self.pages(query.sql)) and scoped_page_sql.is_supported(query)

    def from_source(self, source: PageSource) -> Select:
        """The select with another page source for `statement`."""
        return self if source is self.page_source else _from_source(self, source)

    def chunk(self, query: QuerySql, behind: SegmentSql | None = None) -> NamedStatement:
        """The statement of a chunk of a list: a segment of rows, or the first ones.

        Parameters: `:rows`, the maximum rows of the chunk; `:size`, its bytes, which the last row may exceed; those of
        the segment. Columns: `body`; `rows`, their number; `place`, the sort values of the last row as text if the
        chunk is full, else null. No row if the parent does not exist.
        """
        return _compiled(Select._chunk, self, query, behind)

    def items(self, query: QuerySql) -> NamedStatement:
        """All rows of a list in its order, each as one JSON value."""
        return _compiled(Select._every_item, self, query)

    def pages(self, query: QuerySql) -> bool:
        """Whether the response is one page of several."""
        return self.paged and not query.has_top

    def may_be_narrowed(self, query: QuerySql) -> bool:
        """Whether the statement has the column `there`."""
        return self.tells_absence and bool(query.where or query.limit or query.source)

    def _statement(self, query: QuerySql, has_versions: bool) -> LiteralString:
        facts = self._list_facts(query)
        version: LiteralString = "a.version"
        if facts:
            version = "hash_record_extended(row(" + ", ".join(["int8send(a.version)", *facts]) + "), 0)"
        if self.is_single:
            answer, body = self._single_row(query), "a.body"
        elif has_versions:
            answer = self._version(query)
            has_it: LiteralString = version + " = any(:versions::int8[])"
            body = "case when " + has_it + " then null else (" + self._array_of(query) + ") end"
        else:
            answer, body = self._list(query), "a.body"
        columns: list[LiteralString] = [
            body + " as body",
            version + " as version",
            *facts,
            *self._presence_columns(query),
        ]
        joined: LiteralString = ""
        if self.page_source is PageSource.FIRST_ROWS:
            columns.append("is_complete")
            is_complete = self._scoped_page(query).is_complete("a.found")
            joined = " cross join lateral (select " + is_complete + " as is_complete offset 0) p"
        if query.count:
            joined += " cross join lateral (" + self._total(query) + ") c"
        selected: LiteralString = "select " + ", ".join(columns) + " from "
        if self.parent is None:
            return selected + "(" + answer + ") a" + joined
        return selected + self._parent(" left join lateral (" + answer + ") a on true" + joined + " where ")

    def _list_facts(self, query: QuerySql) -> list[LiteralString]:
        """The columns with further facts about a list."""
        facts: list[LiteralString] = ["total"] if query.count else []
        if self.pages(query):
            facts.append("more")
        return facts

    def _presence_columns(self, query: QuerySql) -> list[LiteralString]:
        """The column `there`, if needed."""
        if self.may_be_narrowed(query):
            return ["exists (select" + self._resource("") + ") as there"]
        if self.reporter is None or self.parent is None:
            return []
        scope: LiteralString = self.reporter.scope.format(t="t") + " and " + self.parent.link.format(t="t", p="p")
        return ["exists (select from " + self.reporter.table.format(t="t") + " where " + scope + ") as there"]

    def _chunk(self, query: QuerySql, behind: SegmentSql | None) -> LiteralString:
        page: LiteralString = " limit " + _ROWS + (" offset " + SKIP if behind is None else "")
        names: list[LiteralString] = ["k" + NUMBERS[number] for number in range(len(query.walk))]
        criteria: LiteralString = ", ".join(
            [key.sql + " as " + name for key, name in zip(query.walk, names, strict=True)]
        )
        row: LiteralString = ", lateral (select " + query.columns + ") x"
        selection: LiteralString = "select x, " + criteria + self._source(query, row, behind.where if behind else "")
        ordered: LiteralString = selection + " order by " + (behind.order if behind else query.order) + page
        written: LiteralString = (
            "select " + self._array() + " as body, count(*) as rows, max(array["
            + ", ".join([name + "::text" for name in names])
            + "]) filter (where upto >= " + _SIZE + " or number = " + _ROWS + ") as place from (select s.*,"
            " sum(octet_length(item)) over w as upto, row_number() over w as number from (select "
            + self._value(query, "r.x") + "::text as item, r.* from (" + ordered + ") r offset 0) s"
            " window w as (rows unbounded preceding)) s where upto - octet_length(item) < " + _SIZE
        )  # fmt: skip
        return self._below(written)

    def _every_item(self, query: QuerySql) -> LiteralString:
        page: LiteralString = (" limit " + PAGE) if self.pages(query) else ""
        ordered: LiteralString = self._ordered(query) + page
        return self._below("select " + self._value(query, "r") + " as item from (" + ordered + ") r")

    def _single_row(self, query: QuerySql) -> LiteralString:
        """The row with its version; empty if it does not exist."""
        if query.plain:
            return "select row_to_json(r.x) as body, r.version from (" + self._ordered(query, versions=True) + ") r"
        item: LiteralString = (
            "select " + self._value(query, "r") + "::text as item from (" + self._ordered(query) + ") r offset 0"
        )
        return "select convert_to(item, 'UTF8') as body, " + _OF_ITEM + " as version from (" + item + ") s"

    def _list(self, query: QuerySql) -> LiteralString:
        """The list with its version, in one statement."""
        version: LiteralString = "version" if query.plain else _OF_ITEM
        return (
            "select " + self._array_or_null(query) + " as body, " + self._fingerprint(query, version)
            + self._items(query, versions=query.plain)
        )  # fmt: skip

    def _array_of(self, query: QuerySql) -> LiteralString:
        """The list without its version."""
        return "select " + self._array_or_null(query) + self._items(query)

    def _version(self, query: QuerySql) -> LiteralString:
        """Only the version of the list."""
        rows = self._page_rows(query, "select " + self.resource.version_sql("t") + " as version")
        return (
            "select " + self._fingerprint(query, "version") + " from (select version" + self._place(query) + " from ("
            + self._bounded(query, rows, " r") + ") s"
        )  # fmt: skip

    def _items(self, query: QuerySql, *, versions: bool = False) -> LiteralString:
        """FROM of the list's rows as text, at most one more than the maximum."""
        row, version = ("r.x", ", r.version") if versions else ("r", "")
        rows = self._bounded(query, self._ordered(query, versions=versions), " r offset 0")
        # Without `offset` or `limit`, PostgreSQL would compute the value again at each use
        item: LiteralString = self._value(query, row) + "::text as item"
        return " from (select " + item + version + self._place(query) + " from (" + rows + ") s"

    def _place(self, query: QuerySql) -> LiteralString:
        """The column `place` of a page's rows, from 1."""
        return ", row_number() over () as place" if self.pages(query) else ""

    def _bounded(self, query: QuerySql, rows: LiteralString, then: LiteralString) -> LiteralString:
        """The rows in parentheses, at most one more than the page or the maximum. A `$top` is inside."""
        one_more: LiteralString = " limit " + (PAGE if self.pages(query) else _ROWS) + " + 1"
        return rows + ")" + then + one_more if query.has_top else rows + one_more + ")" + then

    def _array_or_null(self, query: QuerySql) -> LiteralString:
        """The bytes of the list; null if it has too many rows, or a row that is too long."""
        too_long: LiteralString = "bool_or(octet_length(item) > " + _SIZE + ")" + self._filter(query)
        small: LiteralString = self._array(self._filter(query, "octet_length(item) <= " + _SIZE))
        return (
            "case when " + self._count(query) + " > " + _ROWS + " or " + too_long + " then null else " + small + " end"
        )

    def _fingerprint(self, query: QuerySql, version: LiteralString) -> LiteralString:
        """The column `version`, from the rows' versions in order.

        It is null if there are too many rows. A page also has `more`.
        """
        listed: LiteralString = "array_agg(int8send(" + version + "))" + self._filter(query)
        column: LiteralString = (
            "case when " + self._count(query) + " <= " + _ROWS + " then coalesce(hash_array_extended(" + listed
            + ", 0), 0) end as version"
        )  # fmt: skip
        found: LiteralString = ", count(*) as found" if self.page_source is PageSource.FIRST_ROWS else ""
        return column + (", count(*) > " + PAGE + " as more" if self.pages(query) else "") + found

    def _count(self, query: QuerySql) -> LiteralString:
        """The number of rows, without the one after a page."""
        return "count(*)" + self._filter(query)

    def _filter(self, query: QuerySql, condition: LiteralString = "") -> LiteralString:
        """The FILTER of an aggregate: the rows of the page, if it is one, that match the condition."""
        conditions: list[LiteralString] = [_ON_PAGE] if self.pages(query) else []
        if condition:
            conditions.append(condition)
        return " filter (where " + " and ".join(conditions) + ")" if conditions else ""

    def _value(self, query: QuerySql, row: LiteralString) -> LiteralString:
        """SQL of a row as JSON, applied after the page is cut, so that no other row is built."""
        if query.value:
            return "(" + row + ").value"
        if query.source is not None and query.source.item:
            return query.source.item.format(r=row)
        return "row_to_json(" + row + ")" if self.resource.scalar is None else "to_json((" + row + ").value)"

    def _ordered(self, query: QuerySql, *, versions: bool = False) -> LiteralString:
        """The rows of the query. With `versions`, each is one value `x` with its version."""
        if not versions:
            return self._page_rows(query, "select " + query.columns)
        row: LiteralString = ", lateral (select " + query.columns + ") x"
        return self._page_rows(query, "select x, " + self.resource.version_sql("t") + " as version", row)

    def _page_rows(self, query: QuerySql, select: LiteralString, row: LiteralString = "") -> LiteralString:
        """The rows of the page with the columns of `select`."""
        if self.page_source is not PageSource.SCOPE:
            rows = self._scoped_page(query).rows(self.page_source)
            return select + " from (" + rows + ") t" + row + " order by " + query.order
        if not query.apart:
            return select + self._page(query, row)
        keys = keyset_sql.PrimaryKeySql(self.resource)
        page: LiteralString = "select " + keys.selected + self._page(query)
        if query.lead is not None:
            first = (
                "select "
                + keys.selected
                + self._resource(query.where, "", keyset_sql.is_index_candidate(query.lead, keys))
            )
            page = keyset_sql.page_by_index(query.lead, first + " order by " + query.order, page)
        return keyset_sql.page_rows(page, select + self._row_of_key(keys, row))

    def _scoped_page(self, query: QuerySql) -> ScopedPageSql:
        assert self.resource.member_rows is not None  # noqa: S101 - see `can_page_by`
        size: LiteralString = "least(" + TOP + ", " + _ROWS + " + 1)" if query.has_top else PAGE + " + 1"
        return ScopedPageSql(self.resource.member_rows, query, size)

    def _row_of_key(self, keys: keyset_sql.PrimaryKeySql, row: LiteralString) -> LiteralString:
        """FROM and WHERE of the row whose key is that of `g`."""
        if self.resource.table_of_key:
            return " from " + self.resource.table_of_key.format(t="t", key="g.k0") + row
        return self._resource("", row, keys.same)

    def _page(self, query: QuerySql, row: LiteralString = "") -> LiteralString:
        """FROM, WHERE, ORDER BY and LIMIT of the query's rows."""
        order: LiteralString = (" order by " + query.order) if query.order else ""
        return self._source(query, row) + order + query.limit

    def _array(self, condition: LiteralString = "") -> LiteralString:
        """The bytes of the JSON array of the items that match the condition."""
        separator: LiteralString = "E', \\n '" if self.resource.scalar is None else "', '"
        listed: LiteralString = "string_agg(item, " + separator + ")" + condition
        return "coalesce(convert_to('[' || " + listed + " || ']', 'UTF8'), '[]')"

    def _total(self, query: QuerySql) -> LiteralString:
        """The row with the column `total`, for `$count=true`."""
        if self.page_source is PageSource.FIRST_ROWS:  # many rows are in the scope, or another statement follows
            return "select case when is_complete then (" + self._scoped_page(query).count() + ") end as total"
        if not self.resource.all_rows or query.where or query.source or self.parent or self.order_by:
            return "select count(*) as total" + self._source(query)
        return "select count(*) as total from " + self.resource.all_rows.format(t="t")

    def _source(self, query: QuerySql, row: LiteralString = "", behind: LiteralString = "") -> LiteralString:
        """FROM and WHERE of the response's rows: the resource's, or those of `$apply`."""
        source = query.source
        if source is None:
            return self._resource(query.where, row, behind)
        if not source.before:
            return self._resource(query.where, source.joins + row, behind)
        where: LiteralString = " where " + query.where if query.where else ""
        return " from (" + source.before + self._resource(source.where, source.joins) + source.after + ") t" + where

    def _resource(self, where: LiteralString, row: LiteralString = "", behind: LiteralString = "") -> LiteralString:
        """FROM and WHERE of the resource's rows, within the tenant and the parent."""
        link: LiteralString = "" if self.parent is None else self.parent.link.format(t="t", p="p")
        fixed: tuple[LiteralString, ...] = (self.resource.scope.format(t="t"), link, self.order_by.format(t="t"))
        condition: LiteralString = "(" + where + ")" if where else ""
        predicates: list[LiteralString] = [part for part in (*fixed, behind, condition) if part]
        return (
            " from " + self.resource.table.format(t="t") + row
            + ((" where " + " and ".join(predicates)) if predicates else "")
        )  # fmt: skip

    def _below(self, rows: LiteralString) -> LiteralString:
        """The rows of the parent, if there is one."""
        return rows if self.parent is None else "select l.* from " + self._parent(", lateral (" + rows + ") l where ")

    def _parent(self, then: LiteralString) -> LiteralString:
        if self.parent is None:
            return ""
        parent = self.parent.resource
        condition: LiteralString = parent.scope.format(t="p") + " and " + parent.order("p") + " = :id0"
        return parent.table.format(t="p") + then + condition


@cache
def _from_source(select: Select, source: PageSource) -> Select:
    return replace(select, page_source=source)


def _compiled(
    write: Callable[..., LiteralString], select: Select, query: QuerySql, *options: Hashable
) -> NamedStatement:
    """The SQL of a method of `Select`, with numbered parameters."""
    make = _compile.__wrapped__ if query.length > LONGEST_KEPT else _compile
    return make(write, select, query, *options)


@lru_cache(STATEMENTS)
def _compile(
    write: Callable[..., LiteralString], select: Select, query: QuerySql, *options: Hashable
) -> NamedStatement:
    return compile_statement(write(select, query, *options))
