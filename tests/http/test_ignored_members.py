"""In charge of the tests of `Keyrack-Ignored`: members that were ignored are named, whatever became of the request."""

from __future__ import annotations

from urllib.parse import unquote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.api.endpoint import JsonBody
from keyrack.http.routes import ALL
from tests.support.people import Person, web
from tests.support.servers import RunningServer

HEADER = "Keyrack-Ignored"


def test_a_misspelt_member_of_a_new_car_is_named(alice: Person) -> None:
    response = alice.put("/cars", {"name": "A", "license_plate": "B-KR 1"})
    assert (response.status_code, response.headers[HEADER]) == (201, "license_plate")


def test_nothing_is_named_where_nothing_was_ignored(alice: Person) -> None:
    assert HEADER not in alice.put("/cars", {"name": "A", "licensePlate": "B-KR 1"}).headers
    assert HEADER not in alice.get("/cars").headers


def test_nested_members_are_named_with_their_place(alice: Person) -> None:
    body = {"emailAddress": "n@example.org", "userData": {"firstName": "N", "lastName": "N", "lastname": "M"}, "x": 1}
    assert alice.put("/users", body).headers[HEADER] == "userData/lastname, x"
    steps = [{"op": "replace", "path": "/vin", "value": "x", "from": "/name"}]
    assert alice.patch(f"/cars/{alice.car()}", steps).headers[HEADER] == "0/from"


def test_a_refusal_names_them_too(alice: Person) -> None:
    response = alice.patch("/groups/999999999", [{"op": "replace", "path": "/name", "value": "x", "why": 1}])
    assert (response.status_code, response.headers[HEADER]) == (404, "0/why")


def test_a_replayed_response_names_them_too(alice: Person) -> None:
    key = {"Idempotency-Key": "ignored-members"}
    first, again = (alice.put("/cars", {"name": "A", "colour": "red"}, headers=key) for _ in range(2))
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.headers[HEADER] == again.headers[HEADER] == "colour"


def test_strict_handling_refuses_instead(alice: Person) -> None:
    response = alice.put("/cars", {"name": "A", "colour": "red"}, headers={"Prefer": "handling=strict"})
    assert response.status_code == 400
    assert HEADER not in response.headers


def test_the_header_is_bounded(alice: Person) -> None:
    response = alice.put("/cars", {"name": "A"} | {f"{number:02}" + "x" * 1_000: 1 for number in range(100)})
    assert response.status_code == 201
    assert response.headers[HEADER].split(", ") == [f"{number:02}" + "x" * 58 for number in range(20)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_name_comes_back_as_it_was_sent(alice: Person, name: str) -> None:
    known = {"name", "brand", "model", "licensePlate", "vin", "description", "fuelType"}
    response = alice.put("/cars", {"name": "A", **({} if name in known else {name: None})})
    assert response.status_code == 201
    assert unquote(response.headers[HEADER]) == name


BATCH = {
    "kind": "cars",
    "items": [
        {"op": "create", "body": {"name": "A", "license_plate": "B-KR 1"}},
        {"op": "create", "body": {"name": "B", "licensePlate": "B-KR 2"}},
    ],
}


def test_a_batch_names_the_ignored_members_of_its_items(alice: Person) -> None:
    response = alice.post("/batch", BATCH)
    assert [result["status"] for result in response.json()["results"]] == [201, 201]
    assert response.headers[HEADER] == "items/0/body/license_plate"


def test_strict_handling_refuses_the_item_of_a_batch_alone(alice: Person) -> None:
    response = alice.post("/batch", BATCH, headers={"Prefer": "handling=strict"})
    assert response.status_code == 200
    refused, made = response.json()["results"]
    assert (refused["status"], refused["code"], made["status"]) == (400, "unknown-members", 201)
    assert (
        refused["detail"] == "Couldn't create car. There is no property 'license_plate'. Did you mean 'licensePlate'?"
    )
    assert refused["errors"][0]["pointer"] == "/license_plate"


def test_openapi_has_the_header_wherever_a_body_is_sent(server: RunningServer) -> None:
    paths = web().get(server.url + "/openapi.json").json()["paths"]
    for endpoint in ALL:
        if isinstance(endpoint.body, JsonBody):
            response = paths[endpoint.path][endpoint.method.lower()]["responses"][str(endpoint.responses.status)]
            assert HEADER in response["headers"], endpoint.path
