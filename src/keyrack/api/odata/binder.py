"""The binder: turns an expression's tree and a resource into a typed value of the plan.

It resolves names, types, enumerations, relations and lambdas; later steps cannot fail. The base of a path is the row
that the option is evaluated on; `$it` is the row of the whole request (OData 4.01 Part 2, 5.1.1.14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from keyrack.api.odata import ast, comparisons, functions, names, searches
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import UnknownName, parameter, refuse, refuse_unsupported, with_parameter
from keyrack.api.odata.parse_paths import SEARCH_MATCHES, SEARCH_RANK
from keyrack.api.odata.plan import (
    ComputedProperty,
    CountOf,
    Edm,
    Exists,
    Function,
    LiteralOrigin,
    Nested,
    Null,
    PlanColumn,
    PlanJoin,
    PlanJunction,
    PlanNot,
    PlanParameter,
    Related,
    Value,
)
from keyrack.api.odata.syntax_hints import FORMS_OF_TIME
from keyrack.api.odata.visible_properties import View, member
from keyrack.api.schema.fields import Complex, Field, Relation, Resource, Type
from keyrack.core.errors import BadRequest, NotImplemented

# Longer paths have no use, and PostgreSQL plans their joins slowly
RELATIONS_OF_A_PATH = 5
# Keeps the recursion far below Python's limit: an operator costs no nesting, but a level of the tree
_DEPTH_PER_LEVEL = 4

Row = tuple[Resource, int]  # a resource and the level of its row


class Binder:
    """Binds the expressions of one option. `base` is the row it is evaluated on, `root` that of the request."""

    __slots__ = (
        "aliases",
        "base",
        "deepest",
        "depth",
        "limits",
        "nodes",
        "open_aliases",
        "origins",
        "rank",
        "root",
        "variables",
        "view",
    )

    def __init__(
        self,
        limits: Limits,
        aliases: Mapping[str, ast.Node],
        base: Row,
        root: Row,
        view: View | None = None,
        origins: list[LiteralOrigin] | None = None,
        rank: Value | None = None,
    ) -> None:
        self.limits = limits
        self.aliases = aliases
        self.base = base
        self.root = root
        self.view = view  # of the request's rows, if they differ from the resource's own properties
        self.origins = origins  # of the literals, if their use must be tracked
        self.rank = rank  # the rank of a row in `$search`; only for an order
        self.variables: dict[str, Row] = {}
        self.nodes = 0
        self.depth = 0
        self.deepest = 0  # highest level of `depth`
        self.open_aliases: set[str] = set()  # aliases that are being bound, to detect cycles

    def condition(self, node: ast.Node) -> Value:
        """A Boolean value for `$filter`. Raises `BadRequest`."""
        value = self.value(node)
        if value.type is not Edm.BOOLEAN and value.type is not Edm.NULL:
            refuse(f"A condition must be Edm.Boolean, not {value.type.value}.", "wrong-type")
        return value

    def value(self, node: ast.Node) -> Value:
        """Any value. Raises `BadRequest`."""
        self._enter(1, 1)
        bound = _BIND[type(node)](self, node)
        self.depth -= 1
        return bound

    def _enter(self, nodes: int, levels: int) -> None:
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            self._refuse_parts()
        self.depth += levels
        if self.depth > self.deepest:
            self.deepest = self.depth
            if self.depth > self.limits.nesting * _DEPTH_PER_LEVEL:
                refuse(f"An expression is nested deeper than the limit of {self.limits.nesting} levels.")

    def _refuse_parts(self) -> NoReturn:
        refuse(f"An expression has more parts than the limit of {self.limits.nodes}.")

    def literal(self, node: ast.Literal) -> Value:
        if node.kind is ast.LiteralKind.ENUM:
            refuse("An enumeration member can only be compared with an enumeration.")
        value = parameter(node, self.limits.digits)
        if self.origins is not None and isinstance(value, PlanParameter):
            value.origin = LiteralOrigin(node.at, value.type)
            self.origins.append(value.origin)
        return value

    def path(self, node: ast.Path) -> Value:
        """A property of this row, or of the single row at the end of relations."""
        (resource, level), rest = self._start(node.names)
        if self.view is not None and rest and not level:
            name, prop = self.view.find(names.NamePlace(node, rest))
            if prop is not None:
                return self._computed(node, (name, *rest[1:]), prop)
        if not rest:
            if resource.scalar is None:
                refuse(f"'{node.names[0]}' is an object. Name one of its properties.")
            value = resource.fields[resource.scalar]
            return names.column(value, level) if isinstance(value, Field) else Null()
        if len(rest) == 1 and isinstance(prop := names.members(resource)[0].get(rest[0]), Field):
            return names.column(prop, level)
        steps, (resource, level), rest = self._walk((resource, level), node, rest)
        if not rest or (steps and steps[-1].relation.is_collection):
            refuse(
                f"'{'/'.join(node.names)}' is not a value. Use any, all or /$count on a collection, or name a property."
            )
        name, own = names.member(resource, names.NamePlace(node, rest))
        if isinstance(own, Complex):
            if len(rest) == 1:
                refuse(f"'{name}' is an object. Name one of its properties.")
            rest = rest[1:]
            _, own = names.part(own, name, names.NamePlace(node, rest))
        keys = rest[1:] if isinstance(own, Field) and own.type is Type.MAP and len(rest) == 2 else ()
        if (len(rest) > 1 and not keys) or isinstance(own, Relation):
            refuse(f"'{'/'.join(node.names)}' continues after a property that has no properties.")
        column = names.column(own, level)
        if steps and self.view is not None and not steps[0].parent:
            column, steps = column._replace(nullable=True, level=self.view.join(steps)), ()
        value = _text_of_key(column, keys[0]) if keys else column
        return Related(value.type, steps, value) if steps else value

    def _computed(self, node: ast.Path, path: tuple[str, ...], prop: ComputedProperty | Nested) -> Value:
        """A computed property. It costs as much as its expression."""
        for number, owner in enumerate(path[:-1], 1):
            if isinstance(prop, ComputedProperty):
                refuse(f"'{'/'.join(path)}' continues after a property that has no properties.")
            _, prop = member(prop.members, names.NamePlace(node, path[number:]), owner)
        if isinstance(prop, Nested):
            refuse(f"'{path[-1]}' is an object. Name one of its properties.")
        self._enter(prop.nodes - 1, prop.depth)
        self.depth -= prop.depth
        if self.view is not None:
            self.view.named_nodes += prop.nodes - 1
            if self.view.named_nodes > self.limits.nodes:
                self._refuse_parts()
        return prop.value

    def _start(self, path: tuple[str, ...]) -> tuple[Row, tuple[str, ...]]:
        first = path[0]
        if first == "$it":
            return self.root, path[1:]
        if first == "$this":
            return self.base, path[1:]
        if (row := self.variables.get(first)) is not None:
            return row, path[1:]
        return self.base, path

    def _walk(
        self, row: Row, node: ast.Path, path: tuple[str, ...]
    ) -> tuple[tuple[PlanJoin, ...], Row, tuple[str, ...]]:
        """Follow relations to single rows, and at most one to many rows. Returns the steps, their end and the rest."""
        steps: list[PlanJoin] = []
        level = max([self.base[1], self.root[1], *[level for _, level in self.variables.values()]])
        while path and not (steps and steps[-1].relation.is_collection):
            _, member = names.member(row[0], names.NamePlace(node, path))
            if not isinstance(member, Relation):
                break
            level += 1
            if len(steps) == RELATIONS_OF_A_PATH:
                refuse(f"A path follows more relations than the limit of {RELATIONS_OF_A_PATH}.")
            steps.append(PlanJoin(member, names.target(member), row[1], level))
            row = (steps[-1].target, level)
            path = path[1:]
        return tuple(steps), row, path

    def _rows(self, path: ast.Path) -> tuple[tuple[PlanJoin, ...], Row]:
        """The steps to the many rows of a relation. Raises `BadRequest` for other paths."""
        row, rest = self._start(path.names)
        if self.view is not None and rest and not row[1]:
            _, prop = self.view.find(names.NamePlace(path, rest))
            if prop is not None:
                refuse(f"'{'/'.join(path.names)}' is not a collection.")
        steps, row, rest = self._walk(row, path, rest)
        if rest or not steps or not steps[-1].relation.is_collection:
            names.refuse_rows(path, row[0], rest)
        return steps, row

    def count(self, node: ast.Count) -> Value:
        return CountOf(self._rows(node.path)[0])

    def quantified(self, node: ast.Lambda) -> Value:
        if not node.path.names:
            names.refuse_bare("all" if node.every else "any", self.base[0])
        steps, row = self._rows(node.path)
        if node.body is None or node.variable is None:
            return Exists(steps, None, False)
        hidden = self.variables.get(node.variable)
        self.variables[node.variable] = row
        predicate = self.condition(node.body)
        del self.variables[node.variable]
        if hidden is not None:
            self.variables[node.variable] = hidden
        return Exists(steps, predicate, node.every)

    def alias(self, node: ast.Alias) -> Value:
        """The value of the alias; null if it is not defined (OData 4.01 Part 1, section 11.2.6.1.1)."""
        expression = self.aliases.get(node.name)
        if expression is None:
            return Null()
        if node.name in self.open_aliases:
            refuse(f"The alias '@{node.name}' contains itself.")
        self.open_aliases.add(node.name)
        try:
            value = self.value(expression)
        except BadRequest as refusal:
            raise with_parameter(refusal, f"@{node.name}") from None
        self.open_aliases.discard(node.name)
        return value

    def call(self, node: ast.FunctionCall) -> Value:
        if node.name == SEARCH_RANK:
            if self.rank is None:
                refuse(f"'{SEARCH_RANK}()' can only be used in $orderby, together with $search.")
            return self.rank
        if node.name == SEARCH_MATCHES:
            return self._matches(node)
        return functions.call(node.name, tuple([self.value(argument) for argument in node.arguments]))

    def _matches(self, node: ast.FunctionCall) -> Value:
        """Whether the row at the end of a path matches a word as in `$search`."""
        if len(node.arguments) != 2:  # the parser also accepts no argument or one literal
            refuse(f"The function '{SEARCH_MATCHES}' takes 2 arguments.")
        path, word = node.arguments[0], self.value(node.arguments[1])
        if not isinstance(path, ast.Path) or not isinstance(word, PlanParameter) or word.type is not Edm.STRING:
            refuse(f"The function '{SEARCH_MATCHES}' takes the path of an object and a text.")
        if self.view is not None:
            refuse_unsupported(f"The function '{SEARCH_MATCHES}' beside $apply or $compute")
        row, rest = self._start(path.names)
        steps, row, rest = self._walk(row, path, rest)
        if rest or (steps and steps[-1].relation.is_collection):
            refuse(f"'{'/'.join(path.names)}' is not one object.")
        match = searches.matches(row, word)
        return Related(Edm.BOOLEAN, steps, match) if steps else match

    def negation(self, node: ast.Negation) -> Value:
        return functions.negation(self.value(node.operand))

    def arithmetic(self, node: ast.Arithmetic) -> Value:
        return functions.arithmetic(node.operator, self.value(node.left), self.value(node.right))

    def comparison(self, node: ast.AstComparison) -> Value:
        operator, left, right, _ = node
        if isinstance(right, ast.Literal) and right.kind is ast.LiteralKind.ENUM:
            return self._with_member(operator, self.value(left), right)
        if isinstance(left, ast.Literal) and left.kind is ast.LiteralKind.ENUM:
            return self._with_member(_TURNED[operator], self.value(right), left)
        try:
            return comparisons.compare(operator, self.value(left), self.value(right))
        except UnknownName as refusal:
            raise self._with_forms_of_time(refusal, node) from None

    def _with_forms_of_time(self, refusal: UnknownName, node: ast.AstComparison) -> UnknownName:
        """The error for an unknown name.

        If the other side is a time, the name may be one, such as `yesterday`. The error then has the formats of times.
        """
        for side in (node.left, node.right):
            with suppress(BadRequest, NotImplemented):
                if self.value(side).type in _TIMES:
                    return refusal.explained(FORMS_OF_TIME)
        return refusal

    def _with_member(self, operator: str, column: Value, member: ast.Literal) -> Value:
        if not (isinstance(column, PlanColumn) and column.enum):
            refuse("An enumeration member can only be compared with an enumeration.")
        return comparisons.compare(operator, column, PlanParameter(Edm.STRING, member.text))

    def membership(self, node: ast.AstMembership) -> Value:
        operand = self.value(node.left)
        if node.items is None:
            refuse("The operator 'in' takes a list of literals in parentheses.")
        if len(node.items) > self.limits.items:
            refuse(f"The list of an 'in' has more items than the limit of {self.limits.items}.")
        self.nodes += 1
        enum = isinstance(operand, PlanColumn) and bool(operand.enum)
        items: list[PlanParameter | Null] = []
        for item in node.items:
            if enum and item.kind is ast.LiteralKind.ENUM:
                items.append(PlanParameter(Edm.STRING, item.text))
            else:
                items.append(parameter(item, self.limits.digits))
        return comparisons.among(operand, items)

    def junction(self, node: ast.AstJunction) -> Value:
        operands = tuple([self._operand(node.operator, operand) for operand in node.operands])
        return PlanJunction(node.operator, operands, any(operand.nullable for operand in operands))

    def negated(self, node: ast.AstNot) -> Value:
        value = self.value(node.operand)
        if value.type is not Edm.BOOLEAN and value.type is not Edm.NULL:
            refuse(
                f"The operator 'not' takes Edm.Boolean, not {value.type.value}. {comparisons.NEEDS_PARENTHESES}",
                "wrong-type",
            )
        return PlanNot(value, value.nullable)

    def _operand(self, operator: str, node: ast.Node) -> Value:
        value = self.value(node)
        if value.type is not Edm.BOOLEAN and value.type is not Edm.NULL:
            refuse(f"The operator '{operator}' takes Edm.Boolean, not {value.type.value}.", "wrong-type")
        return value


def _text_of_key(column: PlanColumn, key: str) -> Value:
    """The text of a key in a map, or null."""
    return Function(Edm.STRING, True, "({0} ->> {1})", (column, PlanParameter(Edm.STRING, key)))


_TIMES = (Edm.DATE_TIME, Edm.WALL_CLOCK, Edm.DATE, Edm.TIME)
_TURNED = {"eq": "eq", "ne": "ne", "gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}

_BIND: dict[type[Any], Callable[[Binder, Any], Value]] = {
    ast.Literal: Binder.literal,
    ast.Path: Binder.path,
    ast.Alias: Binder.alias,
    ast.Count: Binder.count,
    ast.Lambda: Binder.quantified,
    ast.FunctionCall: Binder.call,
    ast.AstNot: Binder.negated,
    ast.Negation: Binder.negation,
    ast.Arithmetic: Binder.arithmetic,
    ast.AstComparison: Binder.comparison,
    ast.AstMembership: Binder.membership,
    ast.AstJunction: Binder.junction,
}
