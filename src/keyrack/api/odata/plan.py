"""The typed plan of a query: only values remain of the client's text.

`level` identifies the row of a value: 0 is the resource's own, each subquery has the next. `nullable` marks a value
that can be null, on which its SQL depends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import LiteralString, NamedTuple

from keyrack.api.schema.fields import Complex, Field, Relation, Resource

# The suffix of a relation's name in the name of its count (OData JSON Format 4.01, section 4.5.6). Without `odata.`,
# which 4.01 allows, only clients that get the version from a header would know it.
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
    WALL_CLOCK = "Edm.DateTime"  # a local wall clock time, as if it were UTC
    DATE = "Edm.Date"
    TIME = "Edm.TimeOfDay"
    GUID = "Edm.Guid"
    OPAQUE = "Edm.Untyped"

    __hash__ = object.__hash__  # Enum's own is a Python function, and members are keys of every look-up


class PlanColumn(NamedTuple):
    """A field of the row at `level`; `sql` is the field's template."""

    type: Edm
    nullable: bool
    sql: LiteralString
    level: int
    enum: tuple[str, ...] = ()
    natural: LiteralString | None = None  # the template of its natural order, if a column has it


class LiteralOrigin:
    """A literal of the request's `$filter`, and the use of its value.

    If its value is neither inspected nor converted twice, and is one parameter of the statement, another value of its
    type results in the same statement (`filter_cache`).
    """

    __slots__ = ("at", "fixed", "number", "type", "written")

    def __init__(self, at: int, type: Edm) -> None:
        self.at = at
        self.type = type  # of the literal alone
        self.fixed = False
        self.number: int | None = None  # index of its parameter
        self.written = type  # type of the parameter


class PlanParameter:
    """A literal, always a parameter of the statement.

    Use `raw` if the code treats all values of a type equally. Reading or comparing `value` marks the statement as
    dependent on it.
    """

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

    `divisors` are computed divisors within it: if one is 0, the value does not exist, and its comparison is neither
    true nor false.
    """

    type: Edm
    nullable: bool
    template: LiteralString
    operands: tuple[Value, ...] = ()
    divisors: tuple[Value, ...] = ()


class PlanComparison(NamedTuple):
    """`eq ne gt ge lt le`: never null, also for null operands, unless a divisor is 0."""

    operator: str
    left: Value
    right: Value
    divisors: tuple[Value, ...] = ()

    type = Edm.BOOLEAN

    @property
    def nullable(self) -> bool:
        return bool(self.divisors)


class PlanMembership(NamedTuple):
    """`operand in (items)`; `null` marks null among them. All items have one type."""

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
    """One relation on the path to other rows: from the row at `parent` to those at `level`."""

    relation: Relation
    target: Resource
    parent: int
    level: int


class Related(NamedTuple):
    """A value of the single row at the end of the steps; null if there is none."""

    type: Edm
    steps: tuple[PlanJoin, ...]
    value: Value

    nullable = True


class CountOf(NamedTuple):
    """The number of rows at the end of the steps."""

    steps: tuple[PlanJoin, ...]

    type = Edm.INT64
    nullable = False


class Exists(NamedTuple):
    """`any`: at least one row matches the predicate. With `every`, `all`: no row fails it."""

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
    """A selected field, or a complex member with all or some of its fields."""

    name: str
    member: Field | Complex


class Expansion(NamedTuple):
    """An expanded relation: an array, an object or null, and a count of rows."""

    name: str
    step: PlanJoin
    rows: Rows
    max_rows: int  # maximum rows of an array, unless `rows.top` is set
    is_listed: bool  # whether the rows are returned
    is_counted: bool  # whether their number is returned, regardless of `rows.top` and `rows.skip`


class ComputedProperty(NamedTuple):
    """A property that `$compute` or `$apply` adds or keeps.

    `output` is the returned value if it differs from `value`.

    `alias` marks a name chosen by the client. `nodes` and `depth` are the cost of naming it.
    """

    value: Value
    alias: bool = False
    output: Value | None = None
    nodes: int = 1
    depth: int = 1


class Nested(NamedTuple):
    """An object of such properties, such as `car` after `groupby((car/brand))`.

    It is null if `is_present` is false.
    """

    members: Mapping[str, ComputedProperty | Nested]
    is_present: Value | None = None


class Stage(NamedTuple):
    """One SELECT around the rows. The next stage reads its columns as c0, c1 and so on."""

    columns: tuple[Value, ...]
    where: Value | None
    grouped: int | None  # number of grouping columns, from the first; None: its rows are the previous ones
    order: tuple[Order, ...] = ()
    top: int | None = None
    skip: int | None = None


class Rows(NamedTuple):
    """The rows of a resource, their order, and their output."""

    resource: Resource
    level: int
    selected: tuple[SelectedMember, ...] | None  # None: the whole resource
    expanded: tuple[Expansion, ...]
    where: Value | None
    order: tuple[Order, ...]  # without the key, which is always appended
    top: int | None
    skip: int | None
    computed: tuple[tuple[str, ComputedProperty | Nested], ...] = ()  # returned after the resource's own members
    joins: tuple[PlanJoin, ...] = ()  # relations with one row, joined to the resource's rows
    stages: tuple[Stage, ...] = ()  # around the resource's rows; without any, these are the rows
    key: tuple[Order, ...] = ()  # of the rows of the last stage


def divisors(*values: Value) -> tuple[Value, ...]:
    """The computed divisors within the values."""
    all_divisors: tuple[Value, ...] = ()
    for value in values:
        if isinstance(value, Function):
            all_divisors += value.divisors
    return all_divisors
