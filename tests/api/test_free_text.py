"""Free text: every interface rejects characters that change the direction of the following text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from keyrack.cli.input_files import InputRow
from keyrack.cli.options import wrong_words
from keyrack.core.text import direction_control
from keyrack.telemetry.endpoints.events import OfflineEvent
from keyrack.telemetry.samples import Sample
from tests.support.people import Person

CONTROLS = [*"\u202a\u202b\u202c\u202d\u202e", *"\u2066\u2067\u2068\u2069"]
OVERRIDE = "\u202e"
# Members that code checks: the checker of addresses rejects unsafe characters, a URL is ASCII, and a time has one form.
# The value of an assignment's patch is a number or a time. The whole body of an ingest is read line by line. The
# members of OAuth are compared with stored values
CHECKED = ("emailAddress", "endpoint", "link", "url", "dateTime", "grant_type", "client_id", "scope", "value", "")
SECRET = re.compile(r"username|password|current|secret|code$|token|assertion|state|credential|challenge", re.IGNORECASE)


def strings(schema: Any, schemas: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each free text of a request body: its place and its schema."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if place.count(f"<{name}>") < 1:
            yield from strings(schemas[name], schemas, f"{place}<{name}>")
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from strings(part, schemas, place)
    if "items" in schema:
        yield from strings(schema["items"], schemas, place)
    for name, member in schema.get("properties", {}).items():
        yield from strings(member, schemas, f"{place}/{name}")
    if "string" in schema.get("type", ()) and not schema.keys() & {"enum", "const", "format"}:
        yield place, schema


def is_open(place: str, schema: dict[str, Any]) -> bool:
    """Whether a text accepts direction controls and is shown to other people."""
    member = place.rsplit("/", 1)[-1]
    if member == "value" and "<AssignmentPatch>" not in place:
        return re.search(schema.get("pattern", ""), OVERRIDE) is not None
    is_accepted = re.search(schema.get("pattern", ""), f"a{OVERRIDE}b") is not None
    return is_accepted and not SECRET.search(member) and member not in CHECKED


def test_bodies_reject_direction_controls() -> None:
    document = json.loads((Path(__file__).parents[1] / "golden/data/openapi.json").read_text())
    schemas = document["components"]["schemas"]
    open_texts: set[str] = set()
    texts = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for place, schema in strings(content.get("schema", {}), schemas):
                    texts += 1
                    if is_open(place, schema):
                        open_texts.add(f"{method} {path} {place}")
    assert open_texts == set()
    assert texts > 40


def test_deliveries_reject_direction_controls() -> None:
    for model in (Sample, OfflineEvent):
        schema = TypeAdapter(model).json_schema()
        places = list(strings(schema, schema.get("$defs", {})))
        assert places
        assert [place for place, member in places if is_open(place, member)] == []


def test_the_command_line_and_imports_reject_direction_controls() -> None:
    assert wrong_words(f"Pool {OVERRIDE}7") == "contains U+202E, which changes the direction of text"
    row = InputRow(2, {"name": f"Pool {OVERRIDE}7"})
    assert row.text("name") is None
    assert row.problems == ["name contains U+202E, which changes the direction of text"]


@pytest.mark.parametrize("control", CONTROLS)
def test_the_error_names_the_direction_control(control: str, alice: Person) -> None:
    assert direction_control(f"a{control}") == f"U+{ord(control):04X}"
    problem = {"Accept": "application/problem+json"}
    answer = alice.put("/cars", {"name": f"Pool{control}7 raC"}, headers=problem)
    assert answer.status_code == 400
    detail = f"`name` contains U+{ord(control):04X}, a character that changes the direction of the text after it."
    assert detail in answer.text
    assert answer.json()["errors"][0]["code"] == "direction-control"


def test_right_to_left_names_and_marks_are_accepted(alice: Person) -> None:
    for name in ("רכב אדום", "سيارة", "א\u200fב 7\u200e", "می\u200cخواهم"):
        assert alice.get(f"/cars/{alice.car(name)}").json()["name"] == name


def test_patches_reject_direction_controls(alice: Person) -> None:
    steps = [{"op": "replace", "path": "/name", "value": OVERRIDE + "7 raC"}]
    assert alice.patch(f"/cars/{alice.car()}", steps).status_code == 400
    assert alice.patch(f"/groups/{alice.group()}", steps).status_code == 400


def test_a_password_may_have_any_character(alice: Person) -> None:
    user = {"emailAddress": "rtl.password@example.org", "password": f"long enough {OVERRIDE} x", "type": "Normal"}
    answer = alice.put("/users", {**user, "userData": {"firstName": "Uma", "lastName": "User"}})
    assert answer.status_code == 201, answer.text
