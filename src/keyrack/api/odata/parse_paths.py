"""Parsing of paths, functions and lambdas after a name, and of arrays and objects.

Most of it is only parsed to distinguish well-formed text from malformed text; see `Cursor.refuse_later`.

Source: OData ABNF, section 4 (memberExpr to functionExpr, methodCallExpr, isofExpr) and section 5 (arrayOrObject).
"""

from __future__ import annotations

from typing import NoReturn

from keyrack.api.odata import syntax_hints, tokens
from keyrack.api.odata.ast import Count, FunctionCall, Lambda, LiteralKind, Node, Path
from keyrack.api.odata.parse_literals import LiteralParser
from keyrack.core.suggestions import did_you_mean

# Functions beyond OData
NATURAL_ORDER = "naturalorder"
SEARCH_MATCHES = "searchmatches"
SEARCH_RANK = "searchrank"
# Function -> valid numbers of arguments
FUNCTIONS = {
    "contains": (2,), "startswith": (2,), "endswith": (2,), "indexof": (2,), "length": (1,), "substring": (2, 3),
    "tolower": (1,), "toupper": (1,), "trim": (1,), "concat": (2,), "year": (1,), "month": (1,), "day": (1,),
    "hour": (1,), "minute": (1,), "second": (1,), "fractionalseconds": (1,), "date": (1,), "time": (1,), "now": (0,),
    "mindatetime": (0,), "maxdatetime": (0,), "totaloffsetminutes": (1,), "round": (1,), "floor": (1,),
    "ceiling": (1,), NATURAL_ORDER: (1,), SEARCH_MATCHES: (2,),
    SEARCH_RANK: (0,),
}  # fmt: skip
_NOT_SUPPORTED = {
    "matchespattern": (2,), "totalseconds": (1,), "hassubset": (2,), "hassubsequence": (2,), "geo.distance": (2,),
    "geo.length": (1,), "geo.intersects": (2,), "isdefined": (1,),
}  # fmt: skip
# Functions of OData 2 and 3 -> their OData 4 equivalents
_OLD_FUNCTIONS = {
    "substringof": "OData 4 has contains(name,'a') instead of substringof('a',name).",
    "replace": "The function is part of OData 2 and 3, and OData 4 has no replacement.",
}
_LAMBDAS = ("any", "all")
NEEDS = "'{}' requires a collection before it"
TAKES = "'{}' takes a variable and a condition, such as (x:x/name eq 'a')"


class Paths(LiteralParser):
    """Parses expressions that begin with a name."""

    __slots__ = ()

    def expression(self, minimum: int = 0) -> Node:
        raise NotImplementedError

    def variable(self, text: str) -> Node:
        """`$it`, `$this`, `$root/...` and `$these/...` (ABNF: implicitVariableExpr, rootExpr)."""
        at = self.at
        self.at += len(text)
        following = tokens.SEGMENTS(self.text, self.at + 1) if self.sees("/") else None
        if text in ("$it", "$this"):
            if following is None:
                return Path((text,), at)
            self.at += 1
            return self.path(following[0], (text,))
        if following is None:
            self.fail(f"a path was expected after {text}")
        self.at += 1
        self.path(following[0], ("",))
        return self.refuse_later(text)

    def path(self, text: str, before: tuple[str, ...] = ()) -> Node:
        """The path that begins with the names `text`, with everything that follows."""
        start = at = self.at
        self.check_name(text, at)
        self.at += len(text)
        names = (*before, *text.split("/"))
        if before:
            at -= len("/".join(before)) + 1
        node: Node = Path(names, at)
        no_rows = len(names) == 2 and ("." in names[0] or bool(before))
        if no_rows and names[1].lower() in _LAMBDAS and tokens.LAMBDA(self.text, self.at):
            self.fail(NEEDS.format(names[1]), start)
        while True:
            if self.opens():
                node = self._called(names, at)
                if not isinstance(node, Path):
                    return node
            elif "." in text:
                if len(names) == 1 or (len(names) == 2 and names[0].startswith("$") and not self.sees("/")):
                    self.fail(f"'{text[:50]}' is the name of a type, not a value", at)
                self.refuse_later("A type in a path")
            if not self.sees("/"):
                return node
            if self.sees("/$count"):
                if len(names) == 1 and names[0].startswith("$"):
                    self.fail("/$count requires a collection")
                self.at += len("/$count")
                if self.opens():
                    self.refuse_later("An option of /$count")
                    self.count_options()
                return Count(Path(names, at), at)
            self.at += 1
            if match := tokens.SEGMENTS(self.text, self.at):
                text = match[0]
                self.at = match.end()
                names = (*names, *text.split("/"))
                node = Path(names, at)
            elif self.sees("$filter("):
                self.at += len("$filter")
                self.open()
                self.expression()
                self.close()
                node = self.refuse_later("/$filter in a path")
            elif match := tokens.ANNOTATION(self.text, self.at):
                return self.annotation(match[0])
            else:
                self.refuse_later("A path that ends with '/'")
                return node

    def count_options(self) -> None:
        """The options in the parentheses of `/$count`, which are `$filter` and `$search`."""
        raise NotImplementedError

    def aggregate_function(self) -> None:
        """The parentheses of the function `aggregate`, which the aggregation specification defines."""
        raise NotImplementedError

    def annotation(self, text: str) -> Node:
        """`@Namespace.Term#Qualifier` and its continuation, or a path that begins with an alias."""
        self.check_name(text, self.at)
        self.at += len(text)
        node = self.refuse_later("An annotation or a path after an alias")
        if self.sees("/$count"):
            self.at += len("/$count")
        elif self.sees("/"):
            self.at += 1
            if match := tokens.SEGMENTS(self.text, self.at):
                self.path(match[0], ("", ""))
            elif match := tokens.ANNOTATION(self.text, self.at):
                self.annotation(match[0])
        return node

    def _called(self, names: tuple[str, ...], at: int) -> Node:
        """The node of `names` before a parenthesis; a Path if the path may continue after it."""
        name = names[-1]
        lower = name.lower()
        if lower in _LAMBDAS:
            if match := tokens.LAMBDA(self.text, self.at):
                if len(names) == 1:
                    self.fail(NEEDS.format(name), at)
                self.enter()
                self.at = match.end()
                body = self.expression()
                self.close()
                return Lambda(Path(names[:-1], at), lower == "all", match[1], body, at)
            start = self.at
            if self._empty() and (len(names) > 1 or not self.sees("/")):
                if lower == "all" and len(names) > 1:
                    self.fail(TAKES.format(name), at)
                return Lambda(Path(names[:-1], at), lower == "all", None, None, at)
            self.at = start
        if len(names) == 1:
            if lower in ("isof", "cast"):
                return self._type_function(lower)
            if lower == "case":
                return self._case()
            if (arity := FUNCTIONS.get(lower)) is not None:
                return self._function(lower, arity, at)
            if (arity := _NOT_SUPPORTED.get(lower)) is not None:
                self.refuse_later(f"The function '{lower}'")
                return self._function(lower, arity, at)
        if name == "aggregate":
            self.aggregate_function()
            return self.refuse_later("The function 'aggregate'")
        if not (self._empty() or self._named() or ((len(names) > 1 or "." not in name) and self._key())):
            self._fail_on_call(name, at)
        self.refuse_later(f"'{name}' with parentheses")
        return Path(names, at)

    def _fail_on_call(self, name: str, at: int) -> NoReturn:
        lower = name.lower()
        if lower in _LAMBDAS:
            self.fail(TAKES.format(name), at, hint="")
        hint = _OLD_FUNCTIONS.get(lower) or did_you_mean(name, FUNCTIONS).strip()
        valid = tuple(FUNCTIONS)
        self.fail(f"there is no function '{name}' with these arguments", at, hint=hint, code="unknown", valid=valid)

    def _function(self, name: str, arity: tuple[int, ...], at: int) -> Node:
        if self._named():
            return self.refuse_later("A function with named arguments")
        start = self.at
        self.open()
        arguments: list[Node] = []
        if not self.sees(")"):
            arguments.append(self.expression())
            while self.comma():
                arguments.append(self.expression())
        self.close()
        if len(arguments) not in arity and arguments:
            # The ABNF parses a literal in parentheses as an entity key: well-formed, but meaningless
            end, self.at = self.at, start
            if not (self._key() and self.at == end):
                self.at = start
                self.fail(f"the function '{name}' takes {' or '.join(map(str, arity))} arguments")
        if self.sees("/"):
            # With a path after it, it is a service function of the same name, or an entity with its key
            end, self.at = self.at, start
            if self._empty() or self._key():
                self.refuse_later(f"A path after '{name}()'")
                return Path((name,), at)
            self.at = end
        return FunctionCall(name, tuple(arguments), at)

    def _empty(self) -> bool:
        """Empty parentheses, apart from blanks."""
        start = self.at
        self.at += 1
        self.blanks()
        if self.sees(")"):
            self.at += 1
            return True
        self.at = start
        return False

    def _named(self) -> bool:
        """Named arguments, `(color='green')` (ABNF: functionExprParameters)."""
        start = self.at
        self.at += 1
        self.blanks()
        if tokens.NAMED_ARGUMENT(self.text, self.at) is None:
            self.at = start
            return False
        self.enter()
        while match := tokens.NAMED_ARGUMENT(self.text, self.at):
            self.at = match.end()
            self.expression()
            if not self.comma():
                break
        self.close()
        return True

    def _key(self) -> bool:
        """A key, `('ALFKI')` (ABNF: simpleKey; compoundKey looks like named arguments)."""
        start = self.at
        self.at += 1
        self.blanks()
        alias = tokens.ANNOTATION(self.text, self.at)
        if alias is not None and not any(mark in alias[0] for mark in ".#"):
            self.at = alias.end()
        else:
            literal = self.literal()
            if literal is None or literal.kind is LiteralKind.NULL:
                self.at = start
                return False
        end = tokens.CLOSE(self.text, self.at)
        if end is None:
            self.at = start
            return False
        self.at = end.end()
        return True

    def _type_function(self, name: str) -> Node:
        """`isof` and `cast`: [expression,] type (ABNF: isofExpr)."""
        self.open()
        match = tokens.TYPE_NAME(self.text, self.at)
        if match is None:
            start = self.at
            self.expression()
            if not self.comma():
                self.fail("',' was expected", hint=self._old_type_name(start))
            match = tokens.TYPE_NAME(self.text, self.at)
        if match is None:
            self.fail("the name of a type was expected", hint=self._old_type_name(self.at))
        self.at = match.end()
        self.close()
        return self.refuse_later(f"The function '{name}'")

    def _old_type_name(self, at: int) -> str | None:
        """The hint for a type in quotes at the end of the parentheses."""
        match = tokens.QUOTED(self.text, at)
        return syntax_hints.OLD_TYPE_NAME if match and tokens.CLOSE(self.text, match.end()) else None

    def _case(self) -> Node:
        self.open()
        while True:
            self.expression()
            match = tokens.COLON(self.text, self.at)
            if match is None:
                self.fail("':' was expected")
            self.at = match.end()
            self.expression()
            if not self.comma():
                break
        self.close()
        return self.refuse_later("The function 'case'")

    def array(self) -> Node:
        """A JSON array, the bracket already read (ABNF: array)."""
        if not self.sees("]"):
            self._json_value()
            while self.comma():
                self._json_value()
        self.blanks()
        self.expect("]")
        self.depth -= 1
        return self.refuse_later("An array")

    def object(self) -> Node:
        """A JSON object, the brace already read (ABNF: object)."""
        while not self.sees("}"):
            name = tokens.JSON_STRING(self.text, self.at)
            if name is None:
                self.fail("the name of a member in double quotes was expected")
            self.at = name.end()
            colon = tokens.COLON(self.text, self.at)
            if colon is None:
                self.fail("':' was expected")
            self.at = colon.end()
            self._json_value()
            if not self.comma():
                break
        self.blanks()
        self.expect("}")
        self.depth -= 1
        return self.refuse_later("An object")

    def _json_value(self) -> None:
        if match := tokens.JSON_STRING(self.text, self.at):
            self.at = match.end()
        else:
            self.expression()
