"""Random OData queries of every list.

Properties come from OpenAPI, values from the lists.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.recordings.bench import Bench
from tests.recordings.masks import Masks
from tests.recordings.session import Call, Caller
from tests.recordings.table import Property, Row

SEED = 20260501
QUERIES = 1_800  # random queries of all lists together
SAFE = "$=&,()'/:@*;-._~!"  # characters that need no encoding in a query
# Properties that vary between runs
VARYING_NAMES = {"duration", "clientId", "lastUsed", "lastSeen"}
MOST_VALUES = 12  # values of each property in queries
LONG_AGO = "2001-01-01T00:00:00Z"
COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")
TEXT_CALLS = ("contains", "startswith", "endswith")
WORDS = ("pool", "car", "Zoë", "müller", "OR", "NOT x", '"Pool car"', "example.org", "VW AND pool", "_", "%", "(", '"')
BROKEN = (
    "$filter=",
    "$filter=name eq",
    "$filter=unknown eq 1",
    "$filter=id eq 'x'",
    "$filter=(id eq 1",
    "$filter=id eq 1)",
    "$filter=id has 1",
    "$filter=not id",
    "$filter=id eq 1/0",
    "$filter=id div 0 eq 1",
    "$filter=1",
    "$filter=null",
    "$filter=id in ()",
    "$filter=id in (1,'x')",
    "$filter=name/x eq 1",
    "$filter=cast(id,Edm.String) eq '1'",
    "$filter=id eq 99999999999999999999999999999999999999999999",
    "$filter=day(2015-01-01) eq 1",
    "$orderby=",
    "$orderby=unknown",
    "$orderby=id up",
    "$orderby=id,id,id,id,id,id,id,id,id,id,id",
    "$top=-1",
    "$top=x",
    "$top=10001",
    "$skip=-1",
    "$skip=1.5",
    "$count=maybe",
    "$select=unknown",
    "$select=",
    "$expand=unknown",
    "$expand=",
    "$expand=*",
    "$search=",
    "$search=(",
    "$format=xml",
    "$format=json",
    "$compute=id",
    "$compute=id as id",
    "$compute=1 div 0 as x",
    "$apply=",
    "$apply=unknown(x)",
    "$apply=concat(identity,identity)",
    "$apply=aggregate(id with median as m)",
    "$apply=groupby((unknown))",
    "$apply=topcount(1,id)",
    "$apply=identity",
    "$index=1",
    "$skiptoken=x",
    "$deltatoken=x",
    "$schemaversion=1",
    "$unknown=1",
    "unknown=1",
    "$filter=true&$filter=true",
    "$top=1&top=1",
    "FILTER=true",
    "filter=true",
    "$filter=@a&@a=true",
    "$filter=@a eq null",
    "$levels=1",
    "$it=1",
    "@x=1",
    "$filter=%ff",
    "$filter=%00",
    "$filter='%F0%9F%9A%97' ne null",
    "$top=0",
    "$top=0&$count=true",
    "$skip=100000",
)


@dataclass(frozen=True)
class Column:
    """A property of a list that queries with a fixed response may use."""

    path: str
    kind: str  # "number", "text", "flag", "moment", or "other"
    is_steady: bool  # the values are equal in every run
    values: tuple[Any, ...] = ()


@dataclass
class Queries:
    """A generator of queries for one list."""

    random: random.Random
    columns: list[Column]
    many: list[str]
    one: list[str]
    related: dict[str, list[Column]] = field(default_factory=dict)
    last: str = ""  # the last sort key if ids are random

    def query(self) -> str:
        """A query with random options."""
        makers: list[tuple[str, float, Callable[[], str]]] = [
            ("$filter", 0.6, lambda: self.condition(self.columns, 3)),
            ("$orderby", 0.35, self.order),
            ("$select", 0.25, self.selection),
            ("$expand", 0.25, self.expansion),
            ("$top", 0.3, lambda: str(self.random.randint(0, 6))),
            ("$skip", 0.2, lambda: str(self.random.randint(0, 4))),
            ("$count", 0.2, lambda: "true"),
            ("$search", 0.07, lambda: self.random.choice(WORDS)),
            ("$compute", 0.1, self.computation),
            ("$apply", 0.2, self.transformations),
        ]
        chosen = [(name, make) for name, share, make in makers if self.random.random() < share]
        if any(name == "$apply" for name, _ in chosen):
            chosen = [each for each in chosen if each[0] in ("$apply", "$top", "$skip", "$count")]
        names = {name for name, _ in chosen}
        if self.last and not names & {"$apply", "$orderby"}:
            chosen.append(("$orderby", lambda: self.last))
        parts = [f"{name}={make()}" for name, make in chosen]
        return "&".join(parts or ["$top=2"])

    def condition(self, columns: list[Column], depth: int, prefix: str = "") -> str:
        """A condition on rows."""
        if depth and self.random.random() < 0.35:
            operator = self.random.choice(["and", "or"])
            sides = [self.condition(columns, depth - 1, prefix) for _ in range(2)]
            return f"({sides[0]} {operator} {sides[1]})" if self.random.random() < 0.5 else f" {operator} ".join(sides)
        if depth and self.random.random() < 0.1:
            return f"not ({self.condition(columns, depth - 1, prefix)})"
        if not prefix and self.many and self.random.random() < 0.15:
            return self.quantified()
        column = self.random.choice(columns)
        path = prefix + column.path
        if not column.is_steady or column.kind == "other":
            return self.random.choice([f"{path} ne null", f"{path} eq null"])
        return getattr(self, f"_{column.kind}")(path, column)

    def quantified(self) -> str:
        """A condition on related rows."""
        relation = self.random.choice(self.many)
        columns = self.related.get(relation, [])
        match self.random.choice(["any", "all", "count"]):
            case "count":
                return f"{relation}/$count {self.random.choice(COMPARISONS)} {self.random.randint(0, 3)}"
            case quantifier:
                return f"{relation}/{quantifier}(r:{self.condition(columns, 1, 'r/')})"

    def _number(self, path: str, column: Column) -> str:
        value = self._value(column, 1)
        other = self.random.randint(1, 9)
        return self.random.choice(
            [
                f"{path} {self._comparison()} {value}",
                f"{path} {self.random.choice(['add', 'sub', 'mul', 'divby'])} {other} {self._comparison()} {value}",
                f"{path} mod {other} eq {self.random.randint(0, 3)}",
                f"{path} in ({value},{other},{other + 5})",
                f"round({path}) {self._comparison()} {value}",
                f"-{path} lt {other}",
            ]
        )

    def _text(self, path: str, column: Column) -> str:
        value = str(self._value(column, "x"))
        part = value[self.random.randrange(len(value) or 1) :][: self.random.randint(1, 4)]
        whole, piece = _literal(value), _literal(part)
        return self.random.choice(
            [
                f"{path} {self._comparison()} {whole}",
                f"{self.random.choice(TEXT_CALLS)}({path},{piece})",
                f"contains(tolower({path}),{_literal(part.lower())})",
                f"toupper({path}) eq {_literal(value.upper())}",
                f"length({path}) {self._comparison()} {len(value)}",
                f"indexof({path},{piece}) {self._comparison()} {self.random.randint(-1, 3)}",
                f"substring({path},{self.random.randint(-1, 3)}) ne {piece}",
                f"concat({path},{piece}) ne {whole}",
                f"trim({path}) eq {whole}",
                f"{path} in ({whole},{piece},null)",
                f"{path} eq null",
            ]
        )

    def _flag(self, path: str, column: Column) -> str:
        return self.random.choice([f"{path} eq true", f"{path} ne true", path, f"not {path}", f"{path} eq null"])

    def _moment(self, path: str, column: Column) -> str:
        value = self._value(column, LONG_AGO)
        if not re.search(r"(Z|[+-]\d\d:\d\d)$", value):
            value += "Z"
        year = value[:4]
        return self.random.choice(
            [
                f"{path} {self._comparison()} {value}",
                f"{path} {self._comparison()} {value[:10]}",
                f"year({path}) {self._comparison()} {year}",
                f"{self.random.choice(['month', 'day', 'hour', 'minute', 'second'])}({path}) {self._comparison()} 5",
                f"date({path}) eq {value[:10]}",
                f"{path} lt now()",
                f"{path} eq null",
            ]
        )

    def order(self) -> str:
        """A sort order by properties that are equal in every run."""
        steady = [each for each in self.columns if each.is_steady and each.kind != "other"]
        chosen = self.random.sample(steady, min(len(steady), self.random.randint(1, 2))) if steady else []
        items = [f"{each.path}{self.random.choice(['', ' asc', ' desc'])}" for each in chosen]
        if self.many and self.random.random() < 0.2:
            items.insert(0, f"{self.random.choice(self.many)}/$count desc")
        if self.last:
            items.append(self.last)
        return ",".join(items) or "$it"

    def selection(self) -> str:
        """Random properties for `$select`."""
        if self.random.random() < 0.1:
            return "*"
        names = [each.path for each in self.columns]
        return ",".join(self.random.sample(names, min(len(names), self.random.randint(1, 3)))) or "*"

    def expansion(self) -> str:
        """Random relations for `$expand`."""
        relations = self.many + self.one
        if not relations:
            return "*"
        items: list[str] = []
        for relation in self.random.sample(relations, min(len(relations), self.random.randint(1, 2))):
            columns = self.related[relation]
            options = [f"$select={self.random.choice(columns).path}"]
            if relation in self.many:
                options = [
                    f"$filter={self.condition(columns, 1, '')}",
                    "$orderby=id desc",
                    "$top=1",
                    "$skip=1",
                    "$count=true",
                    f"$select={self.random.choice(columns).path}",
                ]
            chosen = self.random.sample(options, min(len(options), self.random.randint(0, 2)))
            plain = [relation, f"{relation}/$count"] if relation in self.many else [relation]
            items.append(f"{relation}({';'.join(chosen)})" if chosen else self.random.choice(plain))
        return ",".join(items)

    def computation(self) -> str:
        """A computed property."""
        column = self.random.choice(self.columns)
        match column.kind if column.is_steady else "other":
            case "number":
                expression = f"{column.path} mul 2"
            case "text":
                expression = f"length({column.path})"
            case "moment":
                expression = f"year({column.path})"
            case _:
                expression = "1 add 1"
        return f"{expression} as computed"

    def transformations(self) -> str:
        """Transformations for `$apply`."""
        steady = [each for each in self.columns if each.is_steady and each.kind != "other"]
        if not steady:
            return "aggregate($count as n)"
        groups = self.random.sample(steady, min(len(steady), self.random.randint(1, 2)))
        paths = ",".join(each.path for each in groups)
        numbers = [each for each in steady if each.kind == "number"] or steady
        column = self.random.choice(numbers)
        methods = ["min", "max", "countdistinct"] + (["sum", "average"] if column.kind == "number" else [])
        condition = self.condition(self.columns, 1)
        figure = f"{column.path} with {self.random.choice(methods)} as figure"
        return self.random.choice(
            [
                f"groupby(({paths}),aggregate($count as n))",
                f"groupby(({paths}),aggregate($count as n,{figure}))/orderby(n desc)/top(2)",
                f"groupby(({paths}))",
                f"aggregate($count as n,{figure})",
                f"filter({condition})/aggregate($count as n)",
                f"filter({condition})/groupby(({paths}),aggregate({figure}))/filter(figure ne null)",
                f"compute({groups[0].path} as copy)/groupby((copy),aggregate($count as n))/skip(1)",
            ]
        )

    def _comparison(self) -> str:
        return self.random.choice(COMPARISONS)

    def _value(self, column: Column, default: Any) -> Any:
        return self.random.choice(column.values) if column.values else default


def run(bench: Bench) -> None:
    """Send queries to every list: the same invalid ones, then random ones in turn."""
    session = bench.session
    lists = [row for row in session.document.rows if row.takes_options]
    makers: dict[str, Queries] = {}
    for row in lists:
        caller, path = bench.caller(row), bench.call(row).path
        rows = json.loads(session.send(caller, Call("GET", path)).body)
        makers[row.name] = _queries(session.masks, row, rows, random.Random(f"{SEED} {row.name}"))
    for number, text in enumerate(BROKEN):
        cars = next(row for row in lists if row.path == "/cars")
        steady = [row for row in lists if not makers[row.name].last]
        for name in dict.fromkeys([cars.name, steady[number % len(steady)].name]):
            row = next(row for row in lists if row.name == name)
            _send(bench, row, bench.caller(row), text)
    for number in range(QUERIES):
        row = lists[number % len(lists)]
        _send(bench, row, bench.caller(row), makers[row.name].query())


def _send(bench: Bench, row: Row, caller: Caller, query: str) -> None:
    bench.session.section = f"Queries {row.tag}"
    path = f"{bench.call(row).path.partition('?')[0]}?{quote(query, safe=SAFE + '%')}"
    bench.session.record(caller, Call("GET", path), f"{row.path} with {query}")


def _queries(masks: Masks, row: Row, rows: list[Any], source: random.Random) -> Queries:
    """A generator for a list, with values of its present rows."""
    content = row.operation["responses"]["200"]["content"]["application/json"]["schema"]
    items = row.document.resolve(content)["items"]
    plain = row.document.properties(items)
    columns = _columns(masks, plain, rows) or [Column("$it", "text", True, tuple(sorted({str(each) for each in rows})))]
    related: dict[str, list[Column]] = {}
    for each in plain:
        if each.relation:
            schema = row.document.resolve(items)["properties"][each.name]
            choices = [row.document.resolve(choice) for choice in schema.get("anyOf", [schema])]
            target = choices[0].get("items", choices[0])
            related[each.name] = [
                column for column in _columns(masks, row.document.properties(target), []) if column.kind != "moment"
            ]
    many = [each.name for each in plain if each.relation == "many"]
    one = [each.name for each in plain if each.relation == "one"]
    numbers = [each for each in columns if each.kind == "number" and each.is_steady]
    unique = [each.path for each in numbers if len(each.values) == len(rows[:MOST_VALUES])]
    has_random_ids = any(each.path == "id" and not each.is_steady for each in columns)
    return Queries(source, columns, many, one, related, unique[0] if has_random_ids else "")


def _columns(masks: Masks, properties: list[Property], rows: list[Any], prefix: str = "") -> list[Column]:
    """The plain properties, with values of the rows."""
    columns: list[Column] = []
    for each in properties:
        if each.relation:
            continue
        values = [row.get(each.name) for row in rows if isinstance(row, dict)]
        present = [value for value in values if value is not None]
        if each.members:
            inner = [value for value in present if isinstance(value, dict)]
            columns += _columns(masks, list(each.members), inner, f"{prefix}{each.name}/")
            continue
        is_steady = each.name not in VARYING_NAMES and not any(masks.varies(str(value)) for value in present)
        simple = {value for value in present if isinstance(value, str | int | float)}
        columns.append(Column(prefix + each.name, _kind(each), is_steady, tuple(sorted(simple, key=str))[:MOST_VALUES]))
    return columns


def _kind(each: Property) -> str:
    types = each.types - {"null"}
    if each.format == "date-time":
        return "moment"
    if types and types <= {"integer", "number"}:
        return "number"
    return {frozenset({"string"}): "text", frozenset({"boolean"}): "flag"}.get(types, "other")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
