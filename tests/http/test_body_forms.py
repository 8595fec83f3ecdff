"""Forms of bodies: a byte order mark, and integers with a fraction of zero."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from keyrack.api.endpoint import Endpoint, RawBody
from keyrack.core.text import BYTE_ORDER_MARK
from keyrack.http.routes import ALL
from tests.support.people import PASSWORD, Person
from tests.support.servers import eventually

Place = tuple[tuple[str | int, Mapping[str, Any]], ...]  # steps to a member, each with its constant siblings
# Other bodies than required ones are ignored when they are wrong
WITH_BODY = [endpoint for endpoint in ALL if endpoint.body_adapter is not None or isinstance(endpoint.body, RawBody)]


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def adapter_of(endpoint: Endpoint) -> TypeAdapter[Any]:
    adapter = endpoint.body.item if isinstance(endpoint.body, RawBody) else endpoint.body_adapter
    assert adapter is not None
    return adapter


def integers(schema: Mapping[str, Any], defs: Mapping[str, Any], place: Place = ()) -> Iterator[Place]:
    """Yield the places of a body whose type is integer."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    if schema.get("type") == "integer":
        yield place
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from integers(choice, defs, place)
    if "items" in schema:
        yield from integers(schema["items"], defs, (*place, (0, {})))
    properties = schema.get("properties", {})
    constants = {key: member["const"] for key, member in properties.items() if "const" in member}
    for key, member in properties.items():
        yield from integers(member, defs, (*place, (key, constants)))


def body_with(value: str, place: Place) -> str:
    """Return JSON with this value at a place. It has no other members than the constants beside the steps."""
    for step, beside in reversed(place):
        members = "".join(f"{json.dumps(key)}: {json.dumps(constant)}, " for key, constant in beside.items())
        value = f"[{value}]" if step == 0 else f"{{{members}{json.dumps(step)}: {value}}}"
    return value


def has_wrong_type(adapter: TypeAdapter[Any], value: str, place: Place) -> bool:
    """Whether the type of the value at the place is an error."""
    try:
        adapter.validate_json(body_with(value, place))
    except ValidationError as error:
        steps = [step for step, _ in place]
        return any(
            problem["type"] in ("int_type", "int_from_float") and steps[-1] in problem["loc"]
            for problem in error.errors()
        )
    return False


PLACES = [
    pytest.param(adapter_of(endpoint), place, id=f"{name(endpoint)} {'/'.join(str(step) for step, _ in place)}")
    for endpoint in WITH_BODY
    for schema in [adapter_of(endpoint).json_schema()]
    for place in integers(schema, schema.get("$defs", {}))
    if not {"value", "body"} & {step for step, _ in place}  # tested below for patches, and by its endpoint for a batch
]


@pytest.mark.parametrize(("adapter", "place"), PLACES)
def test_integers_with_a_fraction_of_zero_are_valid_in_every_body(adapter: TypeAdapter[Any], place: Place) -> None:
    """OpenAPI 3.1 and JSON Schema 2020-12 define 1.0 as an integer. Other numbers, strings and Booleans are none."""
    assert not any(has_wrong_type(adapter, value, place) for value in ("1", "1.0", "1e0", "10.00e-1"))
    assert all(has_wrong_type(adapter, value, place) for value in ("1.5", "1e400", "1e30", '"1"', '"1.0"', "true"))


def test_integer_members_are_found() -> None:
    assert len(PLACES) > 15


def test_integers_of_requests_and_patches_are_stored_as_integers(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    headers = alice.headers | {"Content-Type": "application/json"}

    def put(lifetime: str) -> int:
        body = f'{{"carId": {car}.0, "userId": {user}.0, "start": "2027-01-01T00:00:00Z", "lifetime": {lifetime}'
        body += ', "renewableAfter": 1e5}'
        return alice.client.put("/assignments", content=body, headers=headers).status_code

    def stored() -> list[tuple[int, ...]]:
        where = "where customer_id = $1 and car_id = $2"
        return [
            tuple(row)
            for row in alice.sql.rows(f"select lifetime, renewable_after from assignment {where}", alice.customer, car)
        ]

    assert [put(value) for value in ("700000.5", "1e400", "true", '"700000"')] == [400] * 4
    assert put("7e5") == 204
    eventually(lambda: stored() == [(700_000, 100_000)])
    (made,) = alice.get(f"/cars/{car}/assignments").json()

    def patch(value: str) -> int:
        steps = f'[{{"op": "replace", "path": "/lifetime", "value": {value}}}]'
        return alice.client.patch(f"/assignments/{made['id']}", content=steps, headers=headers).status_code

    assert [patch(value) for value in ("800000.5", "1e400", '"800000.0"', "true")] == [400] * 4
    assert patch("800000.0") == 204
    eventually(lambda: [lifetime for lifetime, _ in stored()] == [800_000])


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8"])
def test_a_byte_order_mark_before_json_is_skipped(alice: Person, media_type: str) -> None:
    headers = alice.headers | {"Content-Type": media_type}
    for strict in ([], ["handling=strict"]):
        prefer = {"Prefer": ", ".join(["return=representation", *strict])}
        made = alice.client.put("/cars", content=BYTE_ORDER_MARK + b'{"name": "Marked"}', headers=headers | prefer)
        assert made.status_code == 201, made.text
        steps = BYTE_ORDER_MARK + b'[{"op": "replace", "path": "/description", "value": "Blue"}]'
        path = f"/cars/{made.json()['id']}"
        shown = alice.client.patch(path, content=steps, headers=headers | prefer)
        assert (shown.status_code, shown.json()["description"]) == (200, "Blue")
    assert alice.client.put("/cars", content=BYTE_ORDER_MARK * 2 + b"{}", headers=headers).status_code == 400
    assert alice.client.put("/cars", content=BYTE_ORDER_MARK, headers=headers).status_code == 400


def test_a_byte_order_mark_before_a_form_is_skipped(alice: Person) -> None:
    form = f"grant_type=password&username={alice.username}&password={PASSWORD.replace(' ', '+')}"
    headers = {"vendor-API-Key": alice.api_key, "Content-Type": "application/x-www-form-urlencoded"}
    answer = alice.client.post("/oauth2/token", content=BYTE_ORDER_MARK + form.encode(), headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_non_json_numbers_are_rejected(alice: Person, value: str) -> None:
    """This includes unknown members."""
    answer = alice.put(
        "/cars", content=f'{{"name": "No number", "other": {value}}}', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert f"The body is not valid JSON: {value} is not a number" in answer.text


@pytest.mark.parametrize("value", ["NaN", "9" * 5_000])
def test_non_json_values_of_unknown_members_are_rejected_in_strict_bodies(alice: Person, value: str) -> None:
    """Bodies of webhooks accept no unknown members."""
    body = f'{{"url": "https://example.org/", "other": {value}}}'
    answer = alice.put("/webhooks", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
