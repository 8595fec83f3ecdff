"""Services and their contracts."""

from __future__ import annotations

import pytest

from tests.support.people import Person, refused
from tests.support.servers import Sql

NO_SERVICE = "Unable to find a service for the given serviceId which is assigned to the given customerId."


def test_services_are_listed_by_id(carol: Person, sql: Sql) -> None:
    assert (carol.get("/services").status_code, carol.get("/services").json()) == (200, [])
    product = carol.product()
    paired, ended = carol.service(product, "Gold"), carol.service(name="Silver", terminated=True)
    sql.execute(
        "update service set terminated_at = '2026-03-01T10:00:00.5Z', termination_cause = 'Sold' where service_id = $1",
        ended,
    )
    assert carol.get("/services").json() == [
        {
            "id": paired,
            "name": "Gold",
            "productId": product,
            "isTerminated": False,
            "terminationDate": None,
            "terminationCause": None,
        },
        {
            "id": ended,
            "name": "Silver",
            "productId": None,
            "isTerminated": True,
            "terminationDate": "2026-03-01T10:00:00.5Z",
            "terminationCause": "Sold",
        },
    ]
    for row in carol.get("/services").json():
        answer = carol.get(f"/services/{row['id']}")
        assert (answer.status_code, answer.json()) == (200, row)


def test_the_product_of_a_service(alice: Person) -> None:
    text = "Unable to find a product which is assigned to the given serviceId."
    refused(alice.get(f"/services/{alice.service()}/products"), 404, text)
    product = alice.product()
    answer = alice.get(f"/services/{alice.service(product)}/products")
    assert (answer.status_code, answer.json()) == (200, alice.get(f"/products/{product}").json())


def test_the_contract_of_a_service(alice: Person, sql: Sql) -> None:
    service = alice.service()
    text = "Unable to find a contract which is assigned to the given serviceId."
    refused(alice.get(f"/services/{service}/contracts"), 404, text)
    sql.execute(
        "insert into contract (customer_id, service_id, order_number, document_number, order_position, starts_at,"
        " ends_at, term_of_contract, term_of_notice, unit_of_notice)"
        " values ($1, $2, 'O-1', 'D-1', 10, '2026-01-01Z', '2028-12-31T23:59:59Z', 36, 3, 'Month')",
        alice.customer,
        service,
    )
    answer = alice.get(f"/services/{service}/contracts")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "orderNumber": "O-1",
            "documentNumber": "D-1",
            "orderPosition": 10,
            "start": "2026-01-01T00:00:00Z",
            "end": "2028-12-31T23:59:59Z",
            "termOfContract": 36,
            "termOfNotice": 3,
            "unitOfNotice": "Month",
        },
    )


@pytest.mark.parametrize("rest", ["", "/products", "/contracts"])
def test_a_missing_service_gets_404(alice: Person, bob: Person, rest: str) -> None:
    hers = alice.service(alice.product())
    for id in ("2147483647", "0", "-1", "2147483648", "x", str(hers)):
        refused(bob.get(f"/services/{id}{rest}"), 404, NO_SERVICE)
    assert hers not in [row["id"] for row in bob.get("/services").json()]
