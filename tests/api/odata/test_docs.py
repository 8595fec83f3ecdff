"""docs/odata.md says what the tables say, and its examples can be run."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from keyrack.api.odata import OPTIONS, Limits, Shape, parse
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


def test_every_function_and_every_refused_option_is_named() -> None:
    for name in FUNCTIONS:
        assert f"`{name}`" in TEXT, name
    for option in NOT_SUPPORTED:
        assert option == "id" or f"`${option}`" in TEXT, option


def test_the_relations_are_those_of_the_model() -> None:
    for resource in (CAR, USER, ASSIGNMENT, PRODUCT, SERVICE, EVENT, GROUP):
        row = re.search(rf"^\| {resource.name} \|(.*)\|(.*)\|$", TEXT, re.MULTILINE)
        assert row is not None, resource.name
        many, one = (set(re.findall(r"`(\w+)`", cell)) for cell in row.groups())
        assert many == {name for name, relation in resource.relations.items() if relation.many}
        assert one == {name for name, relation in resource.relations.items() if not relation.many}


def test_the_limits_are_the_defaults() -> None:
    found = re.findall(r"^\| .* \| (\d+) \|$", LIMITS, re.MULTILINE)
    assert [int(number) for number in found] == list(asdict(Limits()).values())


def test_the_errors_are_those_that_are_given() -> None:
    for option, text in (("filter", "name eq "), ("apply", "concat(identity,top(1))")):
        with pytest.raises((BadRequest, NotImplemented)) as refusal:
            parse(option, text)
        assert f"{refusal.value.status} {refusal.value.text}\n" in TEXT
