"""Unknown names in the query string: the endpoints and callers for which they are errors."""

from __future__ import annotations

import re

import pytest

from keyrack.api.endpoint import Endpoint, RawBody
from keyrack.api.list_responses import next_page
from keyrack.api.permissions import Free
from keyrack.http.routes import ALL
from tests.auth.test_clients import Program
from tests.http.test_contract import calling
from tests.support.cases import for_all
from tests.support.people import Person

PROBLEM = {"Accept": "application/problem+json"}
EXTENSIONS = [
    row
    for row in ALL
    if row.doc.is_extension
    and row.auth.permission is not Free.PUBLIC
    and row.body_adapter is None
    and not isinstance(row.body, RawBody)
]
SPEC_LISTS = [row for row in ALL if not row.doc.is_extension and row.read is not None and not row.parameters]


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def path_of(endpoint: Endpoint) -> str:
    """The path with ids that match no row. Names are checked before rows are read."""
    return endpoint.path.format(**dict.fromkeys(endpoint.parameters, "0"))


@pytest.fixture(scope="module")
def program(alice: Person) -> dict[str, str]:
    """The headers of a machine client."""
    return Program(
        alice, "cars:write", "groups:read", "keys:read", "products:read", "services:read", "users:read"
    ).headers()


@for_all("endpoint", EXTENSIONS, label=named)
@pytest.mark.parametrize("query", ["nonsense=1", "fliter=true", "%20nonsense%09=1", "=1", "wait%3D1"])
def test_an_extension_rejects_every_unknown_name(alice: Person, endpoint: Endpoint, query: str) -> None:
    person = calling(endpoint, alice)
    answer = person.call(endpoint.method, f"{path_of(endpoint)}?{query}", headers=PROBLEM)
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["code"] in ("invalid-query", "invalid-query-parameter")
    (error,) = problem["errors"]
    assert error["code"] == "unknown"
    shown = endpoint.read or (endpoint.responses.representation and endpoint.representation_read)
    options = [option.name for option in endpoint.query_parameters]
    assert set(options) <= set(error.get("valid", []))
    assert ("$select" in error.get("valid", [])) is bool(shown)


@for_all("endpoint", SPEC_LISTS, label=named)
def test_reads_of_the_spec_ignore_unknown_names_for_managers_only(
    alice: Person, program: dict[str, str], endpoint: Endpoint
) -> None:
    plain = alice.get(endpoint.path)
    answer = alice.get(f"{endpoint.path}?nonsense=1&_=2")
    assert (answer.status_code, answer.content) == (plain.status_code, plain.content)
    refused = alice.get(f"{endpoint.path}?nonsense=1", headers=program | PROBLEM)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "unknown")


def test_writes_of_the_spec_ignore_unknown_names_for_managers_only(alice: Person, program: dict[str, str]) -> None:
    assert alice.put("/cars?nonsense=1", {"name": "Car"}).status_code == 201
    shown = {"Prefer": "return=representation"}
    assert alice.put("/cars?nonsense=1&$select=name", {"name": "Car"}, headers=shown).json() == {"name": "Car"}
    car = alice.car()
    for headers in (program, program | shown):
        refused = alice.put("/cars?nonsense=1", {"name": "Car"}, headers=headers)
        assert (refused.status_code, "'nonsense' is not known" in refused.text) == (400, True)
    refused = alice.delete(f"/cars/{car}?dryRun=true", headers=program)
    assert refused.status_code == 400
    assert alice.get(f"/cars/{car}").status_code == 200
    assert alice.put("/cars?$select=id", {"name": "Car"}, headers=program).status_code == 201


def test_public_endpoints_ignore_unknown_names(alice: Person) -> None:
    for path in ("/health/live", "/openapi.json", "/.well-known/jwks.json"):
        assert alice.client.get(f"{path}?t=1700000000").status_code == 200


def test_a_batch_rejects_a_query_with_its_own_code(alice: Person) -> None:
    body = {"kind": "cars", "items": [{"op": "end", "id": 1}]}
    assert alice.post("/batch?x=1", body, headers=PROBLEM).json()["code"] == "batch-with-query"


def test_blanks_around_parameters_are_ignored(alice: Person) -> None:
    car = alice.car()
    times = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"
    plain = alice.get(f"/cars/{car}/track?{times}&points=5")
    blank = alice.get(f"/cars/{car}/track?%20{times.replace('&', '%20&%09')}&points%20=+5+")
    assert (blank.status_code, blank.json()) == (200, plain.json())
    refused = alice.get(f"/cars/{car}/track?%20from=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z", headers=PROBLEM)
    assert refused.json()["errors"][0]["code"] == "repeated"
    refused = alice.get(f"/cars/{car}/track?form=2026-01-01T00:00:00Z", headers=PROBLEM)
    assert "Did you mean 'from'?" in refused.text
    assert alice.get("/changes?%20$filter=id%20gt%200&wait%20=%201").status_code == 200


def test_the_link_to_the_next_page_has_one_skip_without_blanks(alice: Person) -> None:
    link = next_page("/x", b"%20$Skip%20=%201000&$top=5&+skip+=3&$filter=true", 2000)["Link"]
    assert link == '</x?$top=5&$filter=true&$skip=2000>; rel="next"'


def test_blanks_in_a_query_do_not_reveal_another_customer_s_rows(alice: Person, bob: Person) -> None:
    car = bob.car("Hidden")
    for query in (
        "%20$filter=not(id%20eq%200)",
        "$filter=%20id%20gt%200%20",
        "$search=hidden+",
        "$filter=(id%20gt%200)or(true)",
    ):
        assert car not in [row["id"] for row in alice.get(f"/cars?{query}").json()]


WORTHLESS = ("", "x", "-1", "!", "9" * 50, "AAAAA", "\u2028", "2026-13-01T00:00:00Z")


@pytest.mark.parametrize("endpoint", [row for row in ALL if row.query_parameters], ids=named)
def test_errors_of_parameters_are_sentences(endpoint: Endpoint) -> None:
    for parameter in endpoint.query_parameters:
        rejected = 0
        for text in WORTHLESS:
            try:
                parameter.parse(text)
            except ValueError as error:
                rejected += 1
                assert re.fullmatch(r"[A-Z`'].*[.?]", str(error)), f"{parameter.name}={text}: {error}"
        assert rejected, parameter.name
