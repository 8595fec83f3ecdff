"""In charge of reads: rows of a resource, perhaps below a parent, as one statement that returns the finished JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString

from keyrack.model.fields import Resource
from keyrack.odata import Query, Shape

LONGEST_KEPT = 8_000  # characters of a statement that is kept: nobody can fill the memory with long ones
PAGE: LiteralString = "1000"  # rows of a paged read when the client names no $top (odata rules, "Limits")


@dataclass(frozen=True, slots=True)
class Parent:
    """The row whose rows are asked for: `link` joins `{t}` (the rows) to `{p}` (the parent)."""

    resource: Resource
    link: LiteralString


@dataclass(frozen=True, eq=False)
class Select:
    """What a read asks of the database: one row, or none where the parent is missing.

    Its columns: `body`, the JSON, null where one row was asked for and is missing; and where they are of use `there`
    (is anything there before the query options narrow it), `total` (rows without `$top` and `$skip`) and `more` (rows
    follow after the page). The tenant's predicate stands outside of whatever a client asks for.
    """

    resource: Resource
    one: bool = False
    of: Parent | None = None
    by: LiteralString = ""
    paged: bool = False
    tells_absence: bool = False  # an empty list is a 404, unless it was only filtered
    teller: Resource | None = None  # whose row may be there while the one row that was asked for is not yet

    @property
    def shape(self) -> Shape:
        """What query options may do to it."""
        if self.one:
            return Shape.ONE
        return Shape.COLLECTION if self.resource.scalar is None else Shape.SCALARS

    def statement(self, query: Query) -> LiteralString:
        """The statement with query options; equal shapes give equal SQL."""
        if len(query.columns) + len(query.where) > LONGEST_KEPT:
            return self.build(query)
        return _built(self, query.columns, query.where, query.order, query.limit, query.count, query.top is None)

    def pages(self, query: Query) -> bool:
        """Whether the answer is one page of many."""
        return self.paged and query.top is None

    def may_be_narrowed(self, query: Query) -> bool:
        """Whether the row says if anything is `there` before the query options narrow it."""
        return self.tells_absence and bool(query.where or query.limit)

    def build(self, query: Query) -> LiteralString:
        """The statement, made anew."""
        resource, of = self.resource, self.of
        link: LiteralString = "" if of is None else of.link.format(t="t", p="p")
        fixed: list[LiteralString] = [
            part for part in (resource.scope.format(t="t"), link, self.by.format(t="t")) if part
        ]
        source: LiteralString = " from " + resource.table.format(t="t")
        everything: LiteralString = source + _where(fixed)
        rows: LiteralString = source + _where([*fixed, _grouped(query.where)] if query.where else fixed)
        columns: list[LiteralString] = [self._body(query, rows) + " as body"]
        if self.may_be_narrowed(query):
            columns.append("exists (select" + everything + ") as there")
        if self.teller is not None:
            told: LiteralString = self.teller.table.format(t="t") + _where([self.teller.scope.format(t="t"), link])
            columns.append("exists (select from " + told + ") as there")
        if query.count:
            columns.append("(select count(*)" + rows + ") as total")
        if self.pages(query):
            page: LiteralString = query.limit + " limit " + PAGE + " + 1"
            columns.append("(select count(*) > " + PAGE + " from (select" + rows + page + ") m) as more")
        statement: LiteralString = "select " + ", ".join(columns)
        if of is None:
            return statement
        parent = of.resource
        return (
            statement + " from " + parent.table.format(t="p")
            + " where " + parent.scope.format(t="p") + " and " + parent.order("p") + " = $2"
        )  # fmt: skip

    def _body(self, query: Query, rows: LiteralString) -> LiteralString:
        selected: LiteralString = "select " + query.columns + rows
        if self.one:
            return "(select row_to_json(r) from (" + selected + ") r)"
        item: LiteralString = "r" if self.resource.scalar is None else "r.value"
        order: LiteralString = (" order by " + query.order) if query.order else ""
        page: LiteralString = (" limit " + PAGE) if self.pages(query) else ""
        ordered: LiteralString = selected + order + query.limit + page
        return "(select coalesce(json_agg(" + item + "), '[]') from (" + ordered + ") r)"


def _grouped(predicate: LiteralString) -> LiteralString:
    return "(" + predicate + ")"


def _where(predicates: list[LiteralString]) -> LiteralString:
    return (" where " + " and ".join(predicates)) if predicates else ""


@lru_cache(maxsize=2_000)
def _built(
    select: Select,
    columns: LiteralString,
    where: LiteralString,
    order: LiteralString,
    limit: LiteralString,
    count: bool,
    untopped: bool,
) -> LiteralString:
    query = Query(columns, where, order, limit, count, (), 0, None if untopped else 0, None)
    return select.build(query)
