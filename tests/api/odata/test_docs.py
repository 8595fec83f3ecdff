"""docs/odata.md matches the tables of the parser, and its examples run."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from keyrack.api.odata import OPTIONS, Limits, Shape, parse, query
from keyrack.api.odata.parse_paths import FUNCTIONS
from keyrack.api.odata.parser import NOT_SUPPORTED
from keyrack.core.errors import BadRequest, NotImplemented
from keyrack.fleet.schema import ASSIGNMENT, ASSIGNMENT_OF_CAR, BRAND, CAR, EVENT, GROUP, KEY, PRODUCT, SERVICE, USER
from tests.api.odata.fleet import Fleet, make_fleet

TEXT = (Path(__file__).parents[3] / "docs/odata.md").read_text()
LIMITS = TEXT[TEXT.index("## Limits") : TEXT.index("## Errors")]
EXAMPLES = re.findall(r"^GET (/\S+?)\?(.*)$", TEXT, re.MULTILINE)
RESOURCES = {
    "cars": CAR,
    "users": USER,
    "events": EVENT,
    "groups": GROUP,
    "services": SERVICE,
    "brands": BRAND,
    "keys": KEY,
    "assignments": ASSIGNMENT_OF_CAR,
}


@pytest.fixture(scope="module")
def fleet(sql: Any) -> Fleet:
    return make_fleet(sql)


@pytest.mark.parametrize(("path", "text"), EXAMPLES, ids=lambda value: value[:40])
def test_an_example_runs(fleet: Fleet, path: str, text: str) -> None:
    resource = RESOURCES[path.split("/")[-1]]
    shape = Shape.COLLECTION if resource.scalar is None else Shape.SCALARS
    rows = fleet.ask(resource, text, shape)
    assert isinstance(rows, list)
    assert rows or ("$apply" not in text and "$compute" not in text)


def test_the_options_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| `\$(\w+)` \| (\w+).*? \| (\w+).*? \| (\w+)", TEXT, re.MULTILINE)
    shapes = (Shape.COLLECTION, Shape.ONE, Shape.SCALARS)
    documented = {
        name: {shape for shape, mark in zip(shapes, marks, strict=True) if mark == "yes"} for name, *marks in rows
    }
    assert documented == {name: set(shapes) for name, shapes in OPTIONS.items()}


def test_every_function_and_every_unsupported_option_is_named() -> None:
    for name in FUNCTIONS:
        assert f"`{name}`" in TEXT, name
    for option in NOT_SUPPORTED:
        assert option == "id" or f"`${option}`" in TEXT, option


# Words of docs/odata.md that promise 501, with a query that gets it
NOT_SUPPORTED_EXAMPLES = {
    "$levels": "$expand=products($levels=2)",
    "$compute": "$expand=products($compute=id add 1 as next)",
    "$apply": "$expand=products($apply=aggregate($count as n))",
    "$index": "$index=1",
    "$skiptoken": "$skiptoken=a",
    "$deltatoken": "$deltatoken=a",
    "$schemaversion": "$schemaversion=*",
    "has": "$filter=brand has A.B'c'",
    "case": "$filter=case(true:1) eq 1",
    "cast": "$filter=cast(id,Edm.String) eq '1'",
    "isof": "$filter=isof(Model.Car)",
    "matchespattern": "$filter=matchespattern(name,'a')",
    "totalseconds": "$filter=totalseconds(duration'P1D') gt 1",
    "hassubset": "$filter=hassubset(name,brand)",
    "hassubsequence": "$filter=hassubsequence(name,brand)",
    "isdefined": "$filter=isdefined(name)",
    "geo.": "$filter=geo.length(name) gt 1",
    "$expand": "$apply=groupby((brand))&$expand=products",
    "$search": "$apply=groupby((brand))&$search=a",
    "sub": "$filter=now() sub now() eq null",
    "duration'P1D'": "$filter=now() gt duration'P1D'",
    "concat": "$apply=concat(identity,top(1))",
    "join": "$apply=join(products as p)",
    "outerjoin": "$apply=outerjoin(products as p)",
    "nest": "$apply=nest(identity as a)",
    "addnested": "$apply=addnested(products,identity as a)",
    "topcount": "$apply=topcount(2,id)",
    "bottomcount": "$apply=bottomcount(2,id)",
    "ancestors": "$apply=ancestors($root/Cars,Tree,id,identity)",
    "descendants": "$apply=descendants($root/Cars,Tree,id,identity)",
    "traverse": "$apply=traverse($root/Cars,Tree,id,preorder)",
    "rollup": "$apply=groupby((rollup(brand,model)))",
    "from": "$apply=aggregate(id with sum from brand with max as n)",
    "custom aggregates": "$apply=aggregate(forecast)",
    "aggregates, methods": "$apply=aggregate(id with Custom.median as m)",
    "methods and transformations": "$apply=Model.Best(count=2)",
    "aggregate": "$apply=filter(aggregate($count) ge 9)",
    "in `groupby` another transformation than `aggregate`": "$apply=groupby((brand),top(1))",
    "in `aggregate` relations with many rows": "$apply=aggregate(products/id with max as m)",
    "`sum` and `average` along a relation": "$apply=aggregate(car/id with sum as n)",
    "relations behind `top` and `skip`": "$apply=top(1)/aggregate(products/$count as n)",
}


def not_supported_sentences() -> str:
    """The paragraphs and items of the page that promise 501, as one line."""
    parts = re.split(r"\n\n|\n(?=\* )", TEXT[: TEXT.index("## Errors")])
    return " ".join(" ".join(part.split()) for part in parts if "501" in part)


def test_documented_501_responses_are_501() -> None:
    promised = not_supported_sentences()
    for words, text in NOT_SUPPORTED_EXAMPLES.items():
        assert words in promised, words
        with pytest.raises(NotImplemented) as refusal:
            resource = PRODUCT if "car/id" in text else CAR
            query(resource, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
        assert refusal.value.text.endswith("is not supported."), text


def test_every_name_documented_as_501_has_an_example() -> None:
    sentences = [part for part in re.split(r"\.(?= |$)", not_supported_sentences()) if "501" in part]
    names = {name for sentence in sentences for name in re.findall(r"`([^`]+)`", sentence)}
    assert {"$levels", "has", "case", "concat", "aggregate"} <= names
    context = {"$x", "groupby", "sum", "average", "top", "skip", "products/$count with sum"}
    assert names - context <= set(NOT_SUPPORTED_EXAMPLES)


def test_the_relations_are_those_of_the_model() -> None:
    for resource in (CAR, USER, ASSIGNMENT, PRODUCT, SERVICE, EVENT, GROUP):
        row = re.search(rf"^\| {resource.name} \|(.*)\|(.*)\|$", TEXT, re.MULTILINE)
        assert row is not None, resource.name
        many, one = (set(re.findall(r"`(\w+)`", cell)) for cell in row.groups())
        assert many == {name for name, relation in resource.relations.items() if relation.is_collection}
        assert one == {name for name, relation in resource.relations.items() if not relation.is_collection}


def test_the_limits_are_the_defaults() -> None:
    found = re.findall(r"^\| .* \| (\d+) \|$", LIMITS, re.MULTILINE)
    assert [int(number) for number in found] == list(asdict(Limits()).values())


def test_the_documented_errors_are_the_real_ones() -> None:
    for option, text in (("filter", "name eq "), ("apply", "concat(identity,top(1))")):
        with pytest.raises((BadRequest, NotImplemented)) as refusal:
            parse(option, text)
        assert f"{refusal.value.status} {refusal.value.text}\n" in TEXT
