"""A whole query string: its options, the options that each shape supports, and the query.

Source: OData 4.01 Part 1, section 11.2, and Part 2, section 5; the `$` is optional and names are case-insensitive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, LiteralString, NamedTuple, cast
from unicodedata import normalize
from urllib.parse import unquote, unquote_to_bytes

from keyrack.api.odata import ast
from keyrack.api.odata.apply_options import plan_apply
from keyrack.api.odata.apply_sql import select_list, source
from keyrack.api.odata.cursor import BLANKS
from keyrack.api.odata.filter_cache import DIGITS, Shapes, literals
from keyrack.api.odata.index_order import lead
from keyrack.api.odata.keyset import is_range, keys
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import refuse
from keyrack.api.odata.parser import NOT_SUPPORTED, parse
from keyrack.api.odata.plan import LiteralOrigin, Rows
from keyrack.api.odata.row_options import QueryContext, rows
from keyrack.api.odata.sql import MOST_SKIPPED, SKIP, TOP, SqlWriter
from keyrack.api.odata.statement import Query, QuerySql
from keyrack.api.schema.fields import Resource
from keyrack.core.errors import NotImplemented
from keyrack.core.suggestions import did_you_mean
from keyrack.core.text import nfc, trimmed

PLANS = 2_000  # cached query strings per process
LONGEST_KEPT = 1_000  # maximum bytes of a cached query string, so that long ones cannot exhaust the memory


class Shape(Enum):
    """The shape of an endpoint's response: objects, one object, or plain values."""

    COLLECTION = "a collection"
    ONE = "one object"
    SCALARS = "an array of plain values"


_EVERYWHERE = frozenset(Shape)
_OF_MANY = frozenset((Shape.COLLECTION, Shape.SCALARS))
_OF_OBJECTS = frozenset((Shape.COLLECTION, Shape.ONE))
_OF_MANY_OBJECTS = frozenset((Shape.COLLECTION,))
# Option -> the shapes that support it
OPTIONS: dict[str, frozenset[Shape]] = {
    "filter": _OF_MANY,
    "orderby": _OF_MANY,
    "top": _OF_MANY,
    "skip": _OF_MANY,
    "count": _OF_MANY,
    "select": _OF_OBJECTS,
    "expand": _OF_OBJECTS,
    "search": _OF_MANY,
    "compute": _OF_OBJECTS,
    "apply": _OF_MANY_OBJECTS,
    "format": _EVERYWHERE,
}
# `$id` belongs to `$entity`, which does not exist, so it is an unknown option here
_REFUSED = frozenset(NOT_SUPPORTED) - {"id"}

_MADE_ANEW = frozenset(("apply", "compute"))  # with these, the rows are no longer the resource's own

_ALIAS = re.compile(r"@[^\W\d]\w*").fullmatch
_NO_NAME = re.compile(r"[\s$'\"(),]").search  # no other program's parameter has these characters in its name
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})").search


def query(
    resource: Resource,
    text: bytes,
    shape: Shape,
    *,
    alias: LiteralString,
    limits: Limits,
    other_parameters: Sequence[str] | None = None,
    hides_extensions: bool = False,
) -> Query:
    """The query for a resource, from the query string `text` as it was sent. `alias` is that of its rows.

    `other_parameters` are the endpoint's own; every other name is then rejected. Without them, unknown names are
    ignored, unless they resemble an option. With `hides_extensions`, fields beyond the spec are returned only if
    `$select` names them.

    Raises `BadRequest` for malformed or unknown text and above a limit, and `NotImplemented` (501) for unsupported
    OData. Equal arguments are served from a cache.
    """
    others = None if other_parameters is None else tuple(other_parameters)
    if len(text) > LONGEST_KEPT:
        return _query.__wrapped__(resource, text, shape, alias, limits, others, hides_extensions)
    return _query(resource, text, shape, alias, limits, others, hides_extensions)


def check_names(text: bytes, shape: Shape, others: Sequence[str]) -> None:
    """Raise `BadRequest` for names that are neither OData options nor `other_parameters`."""
    _sorted(text, shape, tuple(others))


def option_name(name: str) -> str:
    """The option for a decoded name in a query string: without `$` and surrounding blanks, in lower case."""
    return name.strip(BLANKS).removeprefix("$").lower()


@lru_cache(PLANS)
def _query(
    resource: Resource,
    text: bytes,
    shape: Shape,
    alias: LiteralString,
    limits: Limits,
    others: tuple[str, ...] | None,
    hides_extensions: bool,
) -> Query:
    values, aliases = _sorted(text, shape, others)
    if "filter" not in values or aliases or not _MADE_ANEW.isdisjoint(values) or limits.digits < DIGITS:
        return _compiled(resource, values, aliases, shape, alias, limits, hides_extensions)
    rest = tuple([option for option in values.items() if option[0] != "filter"])
    around, slots = (resource, shape, alias, limits, rest, hides_extensions), literals(values["filter"])
    compiled = _shapes.find(around, slots)
    if compiled is not None:
        return compiled
    origins: list[LiteralOrigin] = []
    made = _compiled(resource, values, aliases, shape, alias, limits, hides_extensions, origins)
    _shapes.learn(around, slots, made, origins)
    return made


_shapes = Shapes()


class FilterCursor(NamedTuple):
    """The start of a list: after a number. `alone` if the filter has no other condition."""

    number: int
    alone: bool


def filter_cursor(text: bytes, name: str, limits: Limits) -> FilterCursor | None:
    """The position after which a list starts, by the filter of the query string `text`.

    The filter has `name gt N`, alone or joined by `and`. The greatest N of several counts. `query` has validated the
    query string.
    """
    values, aliases = _sorted(text, Shape.COLLECTION, None)
    if "filter" not in values:
        return None
    whole = cast("ast.Node", parse("filter", values["filter"], nesting=limits.nesting))
    parts, lower_bounds = [whole], list[int]()
    while parts:
        part = parts.pop()
        if isinstance(part, ast.AstJunction) and part.operator == "and":
            parts += part.operands
        elif isinstance(part, ast.AstComparison) and part.operator in ("gt", "lt"):
            path, number = (part.left, part.right) if part.operator == "gt" else (part.right, part.left)
            number = _meant(number, aliases, limits)
            if isinstance(path, ast.Path) and path.names == (name,):
                lower_bounds += _whole(number)
    return FilterCursor(max(lower_bounds), isinstance(whole, ast.AstComparison)) if lower_bounds else None


def _meant(node: ast.Node, aliases: Mapping[str, str], limits: Limits) -> ast.Node:
    """The value of an alias, which may be another alias.

    An alias that is not in the query string means null, and is returned unchanged.
    """
    for _ in aliases:
        if isinstance(node, ast.Alias) and node.name in aliases:
            node = cast("ast.Node", parse("expr", aliases[node.name], nesting=limits.nesting))
    return node


def _whole(number: ast.Node) -> list[int]:
    """The integer of a literal, if it is one."""
    is_negative = isinstance(number, ast.Negation)
    literal = number.operand if is_negative else number
    if not isinstance(literal, ast.Literal) or literal.kind is not ast.LiteralKind.INTEGER:
        return []
    return [-int(literal.text) if is_negative else int(literal.text)]


def _compiled(
    resource: Resource,
    values: Mapping[str, str],
    aliases: Mapping[str, str],
    shape: Shape,
    alias: LiteralString,
    limits: Limits,
    hides_extensions: bool,
    origins: list[LiteralOrigin] | None = None,
) -> Query:
    """The query of the options' texts; `origins` receives the literals of the filter."""
    options, nodes = _trees(values, aliases, shape, limits)
    context = QueryContext(limits, nodes, (resource, 0), origins=origins, hides_extensions=hides_extensions)
    plan = (rows if _MADE_ANEW.isdisjoint(options) else plan_apply)(context, resource, _tree(options))
    return _written(plan, bool(options.get("count")), alias)


def _written(plan: Rows, count: bool, alias: LiteralString) -> Query:
    writer = SqlWriter(alias)
    where: LiteralString = "" if plan.where is None else writer.condition(plan.where)
    columns, value, item = select_list(writer, plan)
    origin = source(writer, plan, item)
    order = writer.order(plan)
    has_top = plan.top is not None
    limit: LiteralString = (" limit " + TOP if has_top else "") + (" offset " + SKIP if plan.skip else "")
    walk = keys(plan, alias)
    plain = bool(walk) and not plan.expanded and origin is None
    is_key_enough = has_top and origin is None and bool(plan.resource.key)
    apart = is_key_enough and (bool(plan.skip or where) or not walk)
    led = lead(plan, alias) if apart else None
    length = len(columns) + len(where) + len(order) + sum(map(len, origin or ()))
    sql = QuerySql(
        columns, value, where, is_range(plan, walk, alias), order, limit, has_top, count, walk, plain, apart, led,
        origin, length,
    )  # fmt: skip
    return Query(
        sql, tuple(writer.args), plan.top, min(plan.skip or 0, MOST_SKIPPED), frozenset(writer.related_resources)
    )


def _tree(options: dict[str, ast.Tree]) -> ast.AstOptions:
    trees = {name: value for name, value in options.items() if name in ast.AstOptions._fields}
    return ast.AstOptions(**cast("dict[str, Any]", trees))  # each has the type that `parse` returns for its name


def _sorted(text: bytes, shape: Shape, others: tuple[str, ...] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of the options and of the aliases, decoded. Raises `BadRequest`."""
    values: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for part in text.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            decoded = _decoded(name).strip(BLANKS)
            if not _sort(decoded, _decoded(value), values, aliases):
                _check_other(decoded, shape, others)
    return values, aliases


def _trees(
    values: Mapping[str, str], aliases: Mapping[str, str], shape: Shape, limits: Limits
) -> tuple[dict[str, ast.Tree], dict[str, ast.Node]]:
    """The trees of the options and of the aliases. Malformed text is rejected before unsupported text."""
    trees: dict[str, ast.Tree] = {}
    unsupported: NotImplemented | None = None
    for name, value in values.items():
        try:
            trees[name] = parse(name, value, nesting=limits.nesting)
        except NotImplemented as refusal:
            unsupported = unsupported or refusal
    nodes: dict[str, ast.Node] = {}
    for name, value in aliases.items():
        try:
            nodes[name] = cast("ast.Node", parse("expr", value, nesting=limits.nesting, alias=f"@{name}"))
        except NotImplemented as refusal:
            unsupported = unsupported or refusal
    for name in trees:
        if shape not in OPTIONS[name]:
            refuse(f"Query option '${name}' cannot be applied to {shape.value}.", "not-supported", f"${name}")
    if unsupported is not None:
        raise unsupported
    if "format" in trees:
        _check_format(str(trees["format"]))
    return trees, nodes


def _sort(name: str, value: str, values: dict[str, str], aliases: dict[str, str]) -> bool:
    """Store an option or an alias; False if it is neither. Raises `BadRequest` for repeated and empty ones."""
    option = name.removeprefix("$").lower()
    if option in OPTIONS or option in _REFUSED:
        if option in values:
            refuse(f"Query option '${option}' is given more than once.", "repeated", f"${option}")
        if not value or value.isspace():
            refuse(f"Query option '${option}' has no value.", "missing", f"${option}")
        values[option] = value
    elif name.startswith("@"):
        if not _ALIAS(name) or not value or value.isspace():
            refuse(f"The parameter alias '{name[:50]}' is not valid.", "wrong-form", name[:50])
        if name[1:] in aliases:
            refuse(f"The parameter alias '{name[:50]}' is given more than once.", "repeated", name[:50])
        aliases[name[1:]] = value
    else:
        return False
    return True


def _check_other(name: str, shape: Shape, others: tuple[str, ...] | None) -> None:
    """Raise `BadRequest` for an unknown name, unless it is ignored."""
    if others is not None and name in others:
        return
    if others is not None or _resembles_option(name):
        valid_names = [*(f"${option}" for option, shapes in OPTIONS.items() if shape in shapes), *(others or ())]
        suggestion = did_you_mean(name, [*valid_names, *(f"${option}" for option in OPTIONS)])
        message = f"Query option '{name[:50]}' is not known.{suggestion} The options are {', '.join(valid_names)}."
        refuse(message, "unknown", name[:50], valid_names)


def _resembles_option(name: str) -> bool:
    """Whether an unknown name was probably meant as an option.

    A filter must not be ignored. A name resembles an option in these cases:

    - It has a `$`.
    - It is an option after removing other white space, a second percent-encoding, an encoded `=`, the `amp;` of HTML,
      or full-width characters.
    - It is a part of an expression, after an unencoded `&`.
    """
    bare = normalize("NFKC", trimmed(unquote(name))).partition("=")[0].removeprefix("amp;")
    return bare.removeprefix("$").lower() in OPTIONS or bare.startswith("@") or _NO_NAME(bare) is not None


def _decoded(part: bytes) -> str:
    """Percent-decoded text in NFC, as stored texts are; `+` is a blank.

    Raises `BadRequest` unless it is UTF-8 without U+0000.
    """
    if b"+" in part:
        part = part.replace(b"+", b" ")
    if b"%" in part:
        if _BROKEN(part):
            refuse("A percent sign is not followed by two hexadecimal digits.")
        part = unquote_to_bytes(part)
    try:
        text = part.decode()
    except UnicodeDecodeError:
        refuse("The query string is not UTF-8.")
    if "\0" in text:
        refuse("The character U+0000 cannot be part of a query.")
    return nfc(text)


def _check_format(media_type: str) -> None:
    lower = media_type.lower()
    if lower != "json" and lower.split(";")[0].strip() != "application/json":
        refuse(
            f"The format '{media_type[:50]}' is not supported. The only format is json.",
            "not-one-of",
            "$format",
            ["json"],
        )
