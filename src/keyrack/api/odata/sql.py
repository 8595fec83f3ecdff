"""The SQL of a plan: text from constants only, and parameters.

`eq` treats null as a value, and `gt ge lt le` are false on it. Where null and false are equivalent (in a condition,
outside of `not`), the shorter form is used, because `is not distinct from` never uses an index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, LiteralString

from keyrack.api.odata.literal_values import refuse
from keyrack.api.odata.plan import (
    CountOf,
    Edm,
    Exists,
    Function,
    Null,
    Order,
    PlanColumn,
    PlanComparison,
    PlanJoin,
    PlanJunction,
    PlanMembership,
    PlanNot,
    PlanParameter,
    Related,
    Rows,
    Value,
)
from keyrack.api.schema.fields import Resource
from keyrack.core.error_codes import ErrorCode
from keyrack.db.named_parameters import NUMBERS

CASTS: dict[Edm, LiteralString] = {
    Edm.BOOLEAN: "::bool",
    Edm.INT32: "::int8",  # compared with a 32-bit column, it still uses the index
    Edm.INT64: "::int8",
    Edm.DECIMAL: "::numeric",
    Edm.DOUBLE: "::float8",
    Edm.STRING: "::text",
    Edm.DATE_TIME: "::timestamptz",
    Edm.WALL_CLOCK: "::timestamptz",
    Edm.DATE: "::date",
    Edm.TIME: "::time",
    Edm.GUID: "::uuid",
}
LITERALS = 4_999  # maximum of a query
MOST_SKIPPED = 2**63 - 1  # rows: PostgreSQL accepts no larger number
# The page of the whole response; nested pages have parameters of the query
TOP: LiteralString = ":top::int8"
SKIP: LiteralString = ":skip::int8"
TOO_MANY = "KR001"  # the SQLSTATE of the error that `refuse_expansion` raises
TOO_MANY_EXPANDED = ErrorCode(  # the database provides the text
    "expansion-too-large",
    "A relation that is expanded has more than {most} rows. Give it a $top of its own, or ask for less.",
    "Give the `$expand` a `$top`, or read the relation by its own endpoint.",
)
_SIGNS: dict[str, LiteralString] = {"eq": " = ", "ne": " <> ", "gt": " > ", "ge": " >= ", "lt": " < ", "le": " <= "}
# A bare constant is no valid item of ORDER BY, but a cast one is
_TRUE: LiteralString = "true::bool"
_FALSE: LiteralString = "false::bool"
_JUNCTIONS: dict[str, LiteralString] = {"and": " and ", "or": " or "}


class SqlWriter:
    """Writes the SQL of one plan with the parameters `:q0`, `:q1` and so on; `alias` is the row of level 0."""

    __slots__ = ("_numbers", "alias", "args", "related_resources")

    def __init__(self, alias: LiteralString) -> None:
        self.alias: LiteralString = alias
        self.args: list[object] = []
        self.related_resources: set[Resource] = set()  # resources that are read through relations
        self._numbers: dict[int, LiteralString] = {}  # a literal that occurs again is the same parameter

    def parameter(self, value: object, cast: LiteralString) -> LiteralString:
        """A new parameter. Raises `BadRequest` above a number that no reasonable query reaches."""
        number = len(self.args)
        if number >= LITERALS:
            refuse(f"The query has more literals than the limit of {LITERALS}.")
        self.args.append(value)
        return ":q" + NUMBERS[number] + cast

    def row(self, level: int) -> LiteralString:
        """The alias of the row at a level."""
        return "q" + NUMBERS[level] if level else self.alias

    def value(self, value: Value) -> LiteralString:
        """The exact value, including null."""
        return _WRITE[type(value)](self, value, False)

    def condition(self, value: Value) -> LiteralString:
        """A condition that only selects rows: null may stand for false."""
        return _WRITE[type(value)](self, value, True)

    # Each of these writes one kind of node; with `loose`, null may stand for false

    def column(self, column: PlanColumn, _loose: bool) -> LiteralString:
        return column.sql.format(t=self.row(column.level))

    def literal(self, literal: PlanParameter, _loose: bool) -> LiteralString:
        parameter = self._numbers.get(id(literal))
        if parameter is None:
            if (origin := literal.origin) is not None:
                origin.fixed = origin.fixed or origin.number is not None
                origin.number, origin.written = len(self.args), literal.type
            parameter = self._numbers[id(literal)] = self.parameter(literal.raw, CASTS[literal.type])
        return parameter

    def null(self, _null: Null, _loose: bool) -> LiteralString:
        return "null::bool"

    def function(self, function: Function, _loose: bool) -> LiteralString:
        if not function.operands:
            return function.template
        operands: list[LiteralString] = [self.value(operand) for operand in function.operands]
        return function.template.format(*operands)

    def comparison(self, comparison: PlanComparison, loose: bool) -> LiteralString:
        written = self._compared(comparison, loose)
        return self._guarded(written, comparison.divisors) if comparison.divisors else written

    def _guarded(self, written: LiteralString, divisors: tuple[Value, ...]) -> LiteralString:
        """SQL that is null if a divisor is 0."""
        zero: LiteralString = " or ".join([self.value(divisor) + " = 0" for divisor in divisors])
        return "(case when " + zero + " then null else " + written + " end)"

    def _compared(self, comparison: PlanComparison, loose: bool) -> LiteralString:
        operator, left, right, _ = comparison
        if isinstance(left, Null):
            left, right = right, left
        if isinstance(right, Null):
            if operator not in ("eq", "ne"):
                return _FALSE
            if isinstance(left, Null):
                return _TRUE if operator == "eq" else _FALSE
            return "(" + self.value(left) + (" is null)" if operator == "eq" else " is not null)")
        if operator == "eq" and (loose or not (left.nullable or right.nullable)):
            for first, second in ((left, right), (right, left)):
                if isinstance(second, PlanParameter) and second.type is Edm.BOOLEAN:
                    return self.value(first) if second.value else "(not " + self.value(first) + ")"
        first, second = self.value(left), self.value(right)
        nullable = left.nullable or right.nullable
        if operator == "eq":
            if nullable and (not loose or (left.nullable and right.nullable)):
                return "(" + first + " is not distinct from " + second + ")"
        elif operator == "ne":
            if nullable:
                return "(" + first + " is distinct from " + second + ")"
        elif nullable and not loose:
            return "((" + first + _SIGNS[operator] + second + ") is true)"
        return "(" + first + _SIGNS[operator] + second + ")"

    def membership(self, membership: PlanMembership, loose: bool) -> LiteralString:
        operand, type_, items, null, divisors = membership
        if isinstance(operand, Null):
            return _TRUE if null else _FALSE
        operand_sql = self.value(operand)
        written: LiteralString = "(" + operand_sql + " = any(" + self.parameter(items, CASTS[type_]) + "[]))"
        if null and operand.nullable:
            written = "(" + written + " or " + operand_sql + " is null)"
        elif operand.nullable and not loose:
            written = "(" + written + " is true)"
        return self._guarded(written, divisors) if divisors else written

    def junction(self, junction: PlanJunction, loose: bool) -> LiteralString:
        operands: list[LiteralString] = [_WRITE[type(operand)](self, operand, loose) for operand in junction.operands]
        return "(" + _JUNCTIONS[junction.operator].join(operands) + ")"

    def negated(self, negated: PlanNot, _loose: bool) -> LiteralString:
        return "(not " + self.value(negated.operand) + ")"

    def related(self, related: Related, _loose: bool) -> LiteralString:
        return "(select " + self.value(related.value) + self.steps(related.steps) + ")"

    def count(self, count: CountOf, _loose: bool) -> LiteralString:
        return "(select count(*)" + self.steps(count.steps) + ")"

    def exists(self, exists: Exists, _loose: bool) -> LiteralString:
        rows = self.steps(exists.steps)
        if exists.predicate is None:
            return "(exists (select" + rows + "))"
        predicate = self.condition(exists.predicate)
        if exists.every:
            return "(not exists (select" + rows + " and (" + predicate + ") is not true))"
        return "(exists (select" + rows + " and " + predicate + "))"

    def steps(self, steps: tuple[PlanJoin, ...]) -> LiteralString:
        """FROM and WHERE of the rows at the end of the steps, each within the tenant."""
        tables: LiteralString = ", ".join([step.target.table.format(t=self.row(step.level)) for step in steps])
        return " from " + tables + " where " + " and ".join([self._link(step) for step in steps])

    def join_sql(self, step: PlanJoin) -> LiteralString:
        """The join of a relation's single row, or of none, within the tenant."""
        table: LiteralString = step.target.table.format(t=self.row(step.level))
        if " join " in table:
            table = "(" + table + ")"
        return " left join " + table + " on " + self._link(step)

    def _link(self, step: PlanJoin) -> LiteralString:
        self.related_resources.add(step.target)
        alias = self.row(step.level)
        link: LiteralString = step.relation.link.format(t=alias, p=self.row(step.parent))
        return link + " and " + step.target.scope.format(t=alias) if step.target.scope else link

    def order(self, rows: Rows) -> LiteralString:
        """The ORDER BY list, which ends with the key, so that the order is total."""
        alias = self.row(rows.level)
        if rows.stages:
            items = (*rows.order, *[item for item in rows.key if all(item.value != o.value for o in rows.order)])
            return self.items(items)
        if not rows.order:
            return _key(rows.resource, alias)
        written = [self._item(item) for item in rows.order]
        for name in rows.resource.key:
            sql = rows.resource.value(name, alias)
            if all(sql != item for item, _ in written):
                written.append((sql, ""))
        return ", ".join([sql + direction for sql, direction in written])

    def items(self, order: tuple[Order, ...]) -> LiteralString:
        """The ORDER BY list without additions."""
        return ", ".join([sql + direction for sql, direction in [self._item(item) for item in order]])

    def _item(self, item: Order) -> tuple[LiteralString, LiteralString]:
        return self.value(item.value), direction(item.descending, item.value.nullable)

    def page(self, top: int | None, skip: int | None) -> LiteralString:
        """LIMIT and OFFSET, empty if there is no page."""
        limit: LiteralString = "" if top is None else " limit " + self.parameter(top, "::int8")
        return limit if not skip else limit + " offset " + self.parameter(min(skip, MOST_SKIPPED), "::int8")


def direction(descending: bool, nullable: bool) -> LiteralString:
    """Nulls come first, descending last. Without nulls, the clause is omitted, which keeps the key's index usable."""
    if descending:
        return " desc nulls last" if nullable else " desc"
    return " nulls first" if nullable else ""


@lru_cache(1024)
def _key(resource: Resource, alias: LiteralString) -> LiteralString:
    return resource.order(alias)


_WRITE: dict[type[Any], Callable[[SqlWriter, Any, bool], LiteralString]] = {
    PlanColumn: SqlWriter.column,
    PlanParameter: SqlWriter.literal,
    Null: SqlWriter.null,
    Function: SqlWriter.function,
    PlanComparison: SqlWriter.comparison,
    PlanMembership: SqlWriter.membership,
    PlanJunction: SqlWriter.junction,
    PlanNot: SqlWriter.negated,
    Related: SqlWriter.related,
    CountOf: SqlWriter.count,
    Exists: SqlWriter.exists,
}
