"""Parsing of `$apply`: transformations joined by `/`, with their parameters.

Source: OData Extension for Data Aggregation 4.0, section 3, and its ABNF. Its keywords are in lower case.
`parse_unsupported` parses what is rejected with 501.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import (
    Aggregate,
    AggregateItem,
    Compute,
    Count,
    Cut,
    FilterTransformation,
    Find,
    GroupBy,
    Identity,
    Node,
    Path,
    Sort,
    Transformation,
)
from keyrack.api.odata.parse_items import AS, Items
from keyrack.api.odata.parse_search import search
from keyrack.core.suggestions import did_you_mean

METHODS = ("sum", "min", "max", "average", "countdistinct")

_QUALIFIED = re.compile(tokens.QUALIFIED).match
_WITH = re.compile(rf"{tokens.BEFORE_WORD}with[ \t]+").match
_FROM = re.compile(rf"{tokens.BEFORE_WORD}from[ \t]+").match


class Transformations(Items):
    """Parses `$apply`."""

    __slots__ = ()

    def unsupported_transformation(self, name: str, at: int) -> Transformation:
        """A transformation without support here. Raises `BadRequest` for an unknown one."""
        raise NotImplementedError

    def rollup(self, name: str) -> Path:
        """`rollup` or `rolluprecursive` instead of a path."""
        raise NotImplementedError

    def apply(self) -> tuple[Transformation, ...]:
        transformations = [self.transformation()]
        while self.sees("/"):
            self.at += 1
            transformations.append(self.transformation())
        return tuple(transformations)

    def transformation(self) -> Transformation:
        """One transformation, whose content is one level deeper."""
        at = self.at
        match = _QUALIFIED(self.text, at)
        if match is None:
            self.fail("the name of a transformation was expected")
        self.at = match.end()
        self.check_name(match[0], at)
        if (read := _READ.get(match[0])) is None:
            return self.unsupported_transformation(match[0], at)
        return read(self, at)

    def identity(self, at: int) -> Transformation:
        return Identity(at)

    def filter(self, at: int) -> Transformation:
        self.open()
        condition = self.expression()
        self.close()
        return FilterTransformation(condition, at)

    def find(self, at: int) -> Transformation:
        self.open()
        words = search(self)
        self.close()
        return Find(words, at)

    def sort(self, at: int) -> Transformation:
        self.open()
        items = [self.order_item()]
        while self.comma():
            items.append(self.order_item())
        self.close()
        return Sort(tuple(items), at)

    def cut(self, at: int) -> Transformation:
        name = self.text[at : self.at]
        self.open()
        number = self.number()
        self.close()
        return Cut(name, number, at)

    def computed(self, at: int) -> Transformation:
        self.open()
        items = [self.compute_item(AS)]
        while self.comma():
            items.append(self.compute_item(AS))
        self.close()
        return Compute(tuple(items), at)

    def aggregate(self, at: int) -> Transformation:
        self.open()
        items = [self._aggregated()]
        while self.comma():
            items.append(self._aggregated())
        self.close()
        return Aggregate(tuple(items), at)

    def groupby(self, at: int) -> Transformation:
        self.open()
        self.open()
        paths = [self._grouped()]
        while self.comma():
            paths.append(self._grouped())
        self.close()
        items: tuple[AggregateItem, ...] = ()
        if self.comma():
            match self.apply():
                case (Aggregate(items=items),):
                    pass
                case _:
                    self.refuse_later("Another transformation than 'aggregate' in groupby")
        self.close()
        return GroupBy(tuple(paths), items, at)

    def _grouped(self) -> Path:
        at = self.at
        path = self.property_path()
        if self.opens():
            if path.names not in (("rollup",), ("rolluprecursive",)):
                self.fail("the path of a property was expected", at)
            return self.rollup(path.names[0])
        return path

    def aggregate_function(self) -> None:
        """The arguments of the function `aggregate`, which have no alias (ABNF: aggregateFunctionExpr)."""
        self.open()
        self._unnamed()
        self.close()

    def _aggregated(self) -> AggregateItem:
        at = self.at
        expression, method, bare = self._unnamed()
        alias = self.alias_behind(AS)
        if alias is None and not bare:
            self.fail("'as' and a name were expected")
        return AggregateItem(expression, method, alias, at)

    def _unnamed(self) -> tuple[Node | None, str | None, bool]:
        """The aggregated expression, the method, and whether it needs no alias: the name of a custom aggregate."""
        at = self.at
        if self.sees("$count"):
            self.at += len("$count")
            self._from(custom=False)
            return None, "count", False
        expression = self._type() or self.expression()
        if match := _WITH(self.text, self.at):
            self.at = match.end()
            method = self._method()
            self._from(custom=False)
            return expression, method, False
        if isinstance(expression, Count):
            self._from(custom=False)
            return expression.path, "count", False
        names = expression.names if isinstance(expression, Path) else ("$",)
        if self.text[at : self.at] != "/".join(names) or "$" in names[0] or "." in names[-1]:
            self.fail("'with' and a method were expected")
        return expression, None, not self._from(custom=True)

    def _type(self) -> Node | None:
        """A type instead of a path, such as `Model.Special/$count`."""
        at = self.at
        match = _QUALIFIED(self.text, at)
        if match is None or "." not in match[0]:
            return None
        if self.text.startswith("/$count", match.end()):
            self.at = match.end() + len("/$count")
            self.refuse_later("A type in a path")
            return Count(Path((match[0],), at), at)
        method = _WITH(self.text, match.end())
        name = method and _QUALIFIED(self.text, method.end())
        if not name or name[0] in METHODS[:-1]:  # those need values
            return None
        self.at = match.end()
        self.refuse_later("A type in a path")
        return Path((match[0],), at)

    def _method(self) -> str:
        at = self.at
        match = _QUALIFIED(self.text, at)
        name = match[0] if match else ""
        if match is None or ("." not in name and name not in METHODS):
            hint = did_you_mean(name, METHODS).strip() or None
            self.fail(f"one of the methods {', '.join(METHODS)} was expected", hint=hint, valid=METHODS)
        self.at = match.end()
        self.check_name(name, at)
        if "." in name:
            self.refuse_later(f"The aggregation method '{name}'")
        return name

    def _from(self, *, custom: bool) -> bool:
        """`from` with paths and `with` a method, any number of times; a custom aggregate needs no method."""
        start = self.at
        while match := _FROM(self.text, self.at):
            self.refuse_later("The keyword 'from' in $apply")
            self.at = match.end()
            self.property_path()
            while self._another_path():
                pass
            if match := _WITH(self.text, self.at):
                self.at = match.end()
                self._method()
            elif not custom:
                self.fail("'with' and a method were expected")
        return self.at != start

    def _another_path(self) -> bool:
        """A comma and a path, unless they begin the next item."""
        start = self.at
        if not self.comma() or tokens.SEGMENTS(self.text, self.at) is None:
            self.at = start
            return False
        self.property_path()
        return True


_READ: dict[str, Callable[[Transformations, int], Transformation]] = {
    "identity": Transformations.identity,
    "filter": Transformations.filter,
    "search": Transformations.find,
    "compute": Transformations.computed,
    "orderby": Transformations.sort,
    "top": Transformations.cut,
    "skip": Transformations.cut,
    "aggregate": Transformations.aggregate,
    "groupby": Transformations.groupby,
}
TRANSFORMATIONS = tuple(_READ)
