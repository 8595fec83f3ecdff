"""In charge of the typed plan: what a query means for a resource, with no text of the client left in it but values.

A `level` says whose row a value is of: 0 is the resource's own, each subquery has the next. `nullable` says whether a
value can be null, on which depends what SQL has to say about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import LiteralString, NamedTuple

from keyrack.api.schema.fields import Complex, Field, Relation, Resource

# What the name of a relation is followed by in the name of its count (OData JSON Format 4.01, section 4.5.6). Without
# `odata.`, which 4.01 allows, only clients that are told the version by a header would know it.
COUNT: LiteralString = "@odata.count"


class Edm(Enum):
    """The type of a value; the value is its OData name (OData CSDL 4.01, section 3.3)."""

    NULL = "null"
    BOOLEAN = "Edm.Boolean"
    INT32 = "Edm.Int32"
    INT64 = "Edm.Int64"
    DECIMAL = "Edm.Decimal"
    DOUBLE = "Edm.Double"
    STRING = "Edm.String"
    DATE_TIME = "Edm.DateTimeOffset"
    WALL_CLOCK = "Edm.DateTime"  # what a clock on the wall shows, as if it were UTC
    DATE = "Edm.Date"
    TIME = "Edm.TimeOfDay"
    GUID = "Edm.Guid"
    OPAQUE = "Edm.Untyped"

    __hash__ = object.__hash__  # Enum's own is a function in Python, and members are keys of every look-up


class PlanColumn(NamedTuple):
    """A field of the row at `level`; `sql` is the field's template."""

    type: Edm
    nullable: bool
    sql: LiteralString
    level: int
    enum: tuple[str, ...] = ()
    natural: LiteralString | None = None  # the template of its natural order, if a column has it


class LiteralOrigin:
    """A literal of the request's `$filter`, and what becomes of it. Where its value is neither looked at nor converted
    twice, and is one parameter of the statement, another value of its type makes the same statement
    (`filter_cache`)."""

    __slots__ = ("at", "fixed", "number", "type", "written")

    def __init__(self, at: int, type: Edm) -> None:
        self.at = at
        self.type = type  # by itself
        self.fixed = False
        self.number: int | None = None  # of its parameter, from 0
        self.written = type  # that the parameter has


class PlanParameter:
    """A literal: always a parameter of the statement. `raw` is for whoever does the same with every value of a type;
    to look at the `value`, or compare it, says that the statement may depend on it."""

    __slots__ = ("origin", "raw", "type")
    nullable = False

    def __init__(self, type: Edm, value: object, origin: LiteralOrigin | None = None) -> None:
        self.type = type
        self.raw = value
        self.origin = origin

    @property
    def value(self) -> object:
        if self.origin is not None:
            self.origin.fixed = True
        return self.raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanParameter) and (self.type, self.value) == (other.type, other.value)

    def __hash__(self) -> int:
        return hash((self.type, self.value))

    def turned(self, to: Edm, value: object) -> PlanParameter:
        """The same literal as a value of another type."""
        if self.origin is not None and self.type is not self.origin.type:
            self.origin.fixed = True
        return PlanParameter(to, value, self.origin)


class Null(NamedTuple):
    type: Edm = Edm.NULL

    nullable = True


class Function(NamedTuple):
    """`template` with the SQL of the operands in place of `{0}`, `{1}`, ...

    `divisors` are computed divisors below it: where one is 0 the value does not exist, and the comparison that it
    is part of is neither true nor false.
    """

    type: Edm
    nullable: bool
    template: LiteralString
    operands: tuple[Value, ...] = ()
    divisors: tuple[Value, ...] = ()


class PlanComparison(NamedTuple):
    """`eq ne gt ge lt le`: two-valued also on null, unless a divisor is 0."""

    operator: str
    left: Value
    right: Value
    divisors: tuple[Value, ...] = ()

    type = Edm.BOOLEAN

    @property
    def nullable(self) -> bool:
        return bool(self.divisors)


class PlanMembership(NamedTuple):
    """`operand in (items)`; `null` says that null is one of them. The items have one type."""

    operand: Value
    item_type: Edm
    items: tuple[object, ...]
    null: bool
    divisors: tuple[Value, ...] = ()

    type = Edm.BOOLEAN

    @property
    def nullable(self) -> bool:
        return bool(self.divisors)


class PlanJunction(NamedTuple):
    """Three-valued `and` or `or`."""

    operator: str
    operands: tuple[Value, ...]
    nullable: bool

    type = Edm.BOOLEAN


class PlanNot(NamedTuple):
    operand: Value
    nullable: bool

    type = Edm.BOOLEAN


class PlanJoin(NamedTuple):
    """One relation on the way to other rows: from the row at `parent` to those at `level`."""

    relation: Relation
    target: Resource
    parent: int
    level: int


class Related(NamedTuple):
    """A value of the one row that the steps lead to; null where there is none."""

    type: Edm
    steps: tuple[PlanJoin, ...]
    value: Value

    nullable = True


class CountOf(NamedTuple):
    """How many rows the steps lead to."""

    steps: tuple[PlanJoin, ...]

    type = Edm.INT64
    nullable = False


class Exists(NamedTuple):
    """`any`: one of the rows fulfils the predicate; `every`: there is none that does not."""

    steps: tuple[PlanJoin, ...]
    predicate: Value | None
    every: bool

    type = Edm.BOOLEAN
    nullable = False


Value = (
    PlanColumn
    | PlanParameter
    | Null
    | Function
    | PlanComparison
    | PlanMembership
    | PlanJunction
    | PlanNot
    | Related
    | CountOf
    | Exists
)


class Order(NamedTuple):
    value: Value
    descending: bool


class SelectedMember(NamedTuple):
    """A member of the answer: a field or a complex member, perhaps with some of its fields only."""

    name: str
    member: Field | Complex


class Expansion(NamedTuple):
    """A relation of the answer: an array, or an object or null; and how many rows there are."""

    name: str
    step: PlanJoin
    rows: Rows
    max_rows: int  # rows of an array, unless `rows.top` says how many
    is_listed: bool  # whether the rows are shown
    is_counted: bool  # whether their number is, without `rows.top` and `rows.skip`


class ComputedProperty(NamedTuple):
    """A property that the request has made, or that is left of a row: its value, and what the answer shows where that
    is something else; `alias` says that a client chose its name. `nodes` and `depth` are what naming it costs.
    """

    value: Value
    alias: bool = False
    output: Value | None = None
    nodes: int = 1
    depth: int = 1


class Nested(NamedTuple):
    """An object among such properties, as `car` after `groupby((car/brand))`; null if `is_present` is false."""

    members: Mapping[str, ComputedProperty | Nested]
    is_present: Value | None = None


class Stage(NamedTuple):
    """One SELECT around the rows, whose columns are c0, c1 and so on for the next one."""

    columns: tuple[Value, ...]
    where: Value | None
    grouped: int | None  # by so many of the columns, from the first; None: its rows are those of before
    order: tuple[Order, ...] = ()
    top: int | None = None
    skip: int | None = None


class Rows(NamedTuple):
    """Which rows of a resource, in which order, and what of them is shown."""

    resource: Resource
    level: int
    selected: tuple[SelectedMember, ...] | None  # None: the whole resource
    expanded: tuple[Expansion, ...]
    where: Value | None
    order: tuple[Order, ...]  # without the key, which always follows
    top: int | None
    skip: int | None
    computed: tuple[tuple[str, ComputedProperty | Nested], ...] = ()  # shown behind what is the resource's own
    joins: tuple[PlanJoin, ...] = ()  # relations with one row, joined to the resource's rows
    stages: tuple[Stage, ...] = ()  # around the resource's rows; without any, these are the rows
    key: tuple[Order, ...] = ()  # of the rows of the last stage


def divisors(*values: Value) -> tuple[Value, ...]:
    """The computed divisors below the values."""
    all_divisors: tuple[Value, ...] = ()
    for value in values:
        if isinstance(value, Function):
            all_divisors += value.divisors
    return all_divisors
