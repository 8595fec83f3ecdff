"""Syntax trees of query options: immutable, and independent of any model.

`at` is the position in the option's decoded text, in characters from 0, for error messages. Nodes are named tuples,
because they are created in the hottest path of a read and a tuple is the cheapest immutable object.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class LiteralKind(Enum):
    """The form of a literal. The binder determines its value (OData ABNF, section 7)."""

    NULL = "null"
    BOOLEAN = "Edm.Boolean"
    INTEGER = "integer"
    DECIMAL = "Edm.Decimal"
    DOUBLE = "Edm.Double"  # with an exponent, NaN, INF
    STRING = "Edm.String"
    DATE = "Edm.Date"
    DATE_TIME = "Edm.DateTimeOffset"
    WALL_CLOCK = "Edm.DateTime"  # without an offset
    TIME = "Edm.TimeOfDay"
    GUID = "Edm.Guid"
    ENUM = "enumeration member"
    OTHER = "other"  # durations, binary and geographic values: parsed, then rejected with 501

    __hash__ = object.__hash__  # Enum's own is a Python function, and members are keys of every look-up


class Literal(NamedTuple):
    """`text` is the value as written, without the quotes and the prefix of a quoted one."""

    kind: LiteralKind
    text: str
    at: int


class Path(NamedTuple):
    """A property path. The first name may be `$it`, `$this` or a lambda variable."""

    names: tuple[str, ...]
    at: int


class Alias(NamedTuple):
    """A parameter alias, without its `@`."""

    name: str
    at: int


class Count(NamedTuple):
    """`path/$count`."""

    path: Path
    at: int


class Lambda(NamedTuple):
    """`path/any(variable:body)` or `all`; `any()` has neither variable nor body.

    The path is empty for a bare `any()`, which the ABNF parses as a function of the service.
    """

    path: Path
    every: bool
    variable: str | None
    body: Node | None
    at: int


class FunctionCall(NamedTuple):
    """A built-in function, with its name in lower case."""

    name: str
    arguments: tuple[Node, ...]
    at: int


class AstNot(NamedTuple):
    operand: Node
    at: int


class Negation(NamedTuple):
    operand: Node
    at: int


class Arithmetic(NamedTuple):
    """`add sub mul div divby mod`."""

    operator: str
    left: Node
    right: Node
    at: int


class AstComparison(NamedTuple):
    """`eq ne gt ge lt le`."""

    operator: str
    left: Node
    right: Node
    at: int


class AstJunction(NamedTuple):
    """`and` or `or` with two or more operands, so that a long chain is not deep."""

    operator: str
    operands: tuple[Node, ...]
    at: int


class AstMembership(NamedTuple):
    """`left in (literal, ...)`; if `items` is None, `left in expression`, which no supported type allows."""

    left: Node
    items: tuple[Literal, ...] | None
    at: int


class UnsupportedNode(NamedTuple):
    """Valid syntax that is rejected with 501; never part of a tree that `parse` returns."""

    at: int


Node = (
    Literal
    | Path
    | Alias
    | Count
    | Lambda
    | FunctionCall
    | AstNot
    | Negation
    | Arithmetic
    | AstComparison
    | AstJunction
    | AstMembership
    | UnsupportedNode
)


class OrderItem(NamedTuple):
    expression: Node
    descending: bool
    at: int


class SearchWord(NamedTuple):
    """A word or a phrase of `$search`."""

    text: str
    at: int


class SearchNot(NamedTuple):
    operand: Search
    at: int


class SearchJunction(NamedTuple):
    operator: str  # "and" or "or"
    operands: tuple[Search, ...]
    at: int


Search = SearchWord | SearchNot | SearchJunction


class SelectItem(NamedTuple):
    """A path of names, `("*",)` for everything; `options` are those in parentheses."""

    names: tuple[str, ...]
    options: AstOptions | None
    at: int


class ExpandItem(NamedTuple):
    """A path of names. `alone` marks a following `/$count`, which returns only the count."""

    names: tuple[str, ...]
    options: AstOptions | None
    at: int
    alone: bool = False


class ComputeItem(NamedTuple):
    """`expression as alias`."""

    expression: Node
    alias: str
    at: int


class Identity(NamedTuple):
    """`identity`, which does not change the rows."""

    at: int


class FilterTransformation(NamedTuple):
    """`filter(condition)`."""

    condition: Node
    at: int


class Find(NamedTuple):
    """`search(words)`."""

    search: Search
    at: int


class Compute(NamedTuple):
    """`compute(expression as alias,...)`."""

    items: tuple[ComputeItem, ...]
    at: int


class Sort(NamedTuple):
    """`orderby(items)`."""

    items: tuple[OrderItem, ...]
    at: int


class Cut(NamedTuple):
    """`top(number)` or `skip(number)`."""

    name: str
    number: int
    at: int


class AggregateItem(NamedTuple):
    """`expression with method as alias`; without a method, `$count` (whose expression may be None) or a custom one."""

    expression: Node | None
    method: str | None
    alias: str | None
    at: int


class Aggregate(NamedTuple):
    """`aggregate(items)`."""

    items: tuple[AggregateItem, ...]
    at: int


class GroupBy(NamedTuple):
    """`groupby((paths),aggregate(items))`; without items, the distinct values of the paths."""

    paths: tuple[Path, ...]
    items: tuple[AggregateItem, ...]
    at: int


Transformation = Identity | FilterTransformation | Find | Compute | Sort | Cut | Aggregate | GroupBy


class AstOptions(NamedTuple):
    """The options of a request, or those in the parentheses of `$select` or `$expand`."""

    filter: Node | None = None
    orderby: tuple[OrderItem, ...] = ()
    select: tuple[SelectItem, ...] = ()
    expand: tuple[ExpandItem, ...] = ()
    search: Search | None = None
    top: int | None = None
    skip: int | None = None
    count: bool | None = None  # pyright: ignore[reportIncompatibleMethodOverride] - options go by their names
    compute: tuple[ComputeItem, ...] = ()
    apply: tuple[Transformation, ...] = ()


Tree = (
    Node
    | Search
    | tuple[OrderItem, ...]
    | tuple[SelectItem, ...]
    | tuple[ExpandItem, ...]
    | tuple[ComputeItem, ...]
    | tuple[Transformation, ...]
    | int
    | bool
    | str
)
