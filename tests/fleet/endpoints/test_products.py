"""Products: key boxes and IQ units, their service and their car."""

from __future__ import annotations

import pytest

from tests.support.people import Person, refused
from tests.support.servers import Sql

NO_PRODUCT = "Unable to find a product for the given productId which is assigned to the given customerId."


def test_products_are_listed_by_id(carol: Person) -> None:
    assert (carol.get("/products").status_code, carol.get("/products").json()) == (200, [])
    box = carol.product(unique_id="U-1", serial_number="S-1", sap_number="P-1")
    iq = carol.product("IQ", unique_id="U-2", serial_number="S-2", sap_number="P-2")
    assert carol.get("/products").json() == [
        {"id": box, "uniqueId": "U-1", "serialNumber": "S-1", "sapNumber": "P-1", "type": "vendor Box"},
        {"id": iq, "uniqueId": "U-2", "serialNumber": "S-2", "sapNumber": "P-2", "type": "vendor IQ"},
    ]


def test_a_product_has_all_members(alice: Person, sql: Sql) -> None:
    box = alice.product(unique_id="U-3", serial_number="S-3", sap_number="P-3")
    whole = {
        "id": box,
        "uniqueId": "U-3",
        "serialNumber": "S-3",
        "sapNumber": "P-3",
        "dongleTerminationTimeStamp": None,
        "type": "vendor Box",
    }
    answer = alice.get(f"/products/{box}")
    assert (answer.status_code, answer.json()) == (200, whole)
    sql.execute("update product set dongle_terminated_at = '2026-03-01T12:00:00+02' where product_id = $1", box)
    whole["dongleTerminationTimeStamp"] = "2026-03-01T10:00:00Z"
    assert alice.get(f"/products/{box}").json() == whole


def test_the_service_of_a_product(alice: Person) -> None:
    product = alice.product()
    refused(
        alice.get(f"/products/{product}/services"),
        404,
        "Unable to find a service which is assigned to the given productId.",
    )
    service = alice.service(product, "Gold")
    answer = alice.get(f"/products/{product}/services")
    assert (answer.status_code, answer.json()) == (
        200,
        {"id": service, "name": "Gold", "isTerminated": False, "terminationDate": None, "terminationCause": None},
    )


def test_the_car_of_a_product(alice: Person) -> None:
    product, car = alice.product(), alice.car("Holder")
    alice.service(product)
    refused(
        alice.get(f"/products/{product}/cars"), 404, "Unable to find a car which is assigned to the given productId."
    )
    assert alice.put("/installations", {"carId": car, "productId": product}).status_code == 204
    answer = alice.get(f"/products/{product}/cars")
    assert (answer.status_code, answer.json()) == (200, alice.get(f"/cars/{car}").json())


@pytest.mark.parametrize("rest", ["", "/services", "/cars"])
def test_a_missing_product_gets_404(alice: Person, bob: Person, rest: str) -> None:
    hers = alice.product()
    alice.service(hers)
    for id in ("2147483647", "0", "-1", "2147483648", "x", str(hers)):
        refused(bob.get(f"/products/{id}{rest}"), 404, NO_PRODUCT)
    assert hers not in [row["id"] for row in bob.get("/products").json()]
