"""Pairings of services with products."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.people import Person, done, refused

PATH = "/pairings"
NO_SERVICE = "Unable to find a service for the given serviceId which is assigned to the given customerId."
NO_PRODUCT = "Unable to find a product for the given parameters which is assigned to the given customerId."
WHAT = {"PUT": "pair service with product", "DELETE": "unlink service from product"}

both = pytest.mark.parametrize("method", ["PUT", "DELETE"])


@pytest.mark.parametrize("by", ["productId", "serialNumber", "uniqueId"])
def test_pair_and_unlink(alice: Person, by: str) -> None:
    service, product = alice.service(), alice.product()
    body = {"serviceId": service, by: alice.get(f"/products/{product}").json()["id" if by == "productId" else by]}
    done(alice.put(PATH, body))
    assert alice.get(f"/services/{service}").json()["productId"] == product
    assert alice.get(f"/products/{product}/services").json()["id"] == service
    done(alice.delete(PATH, body))
    assert alice.get(f"/services/{service}").json()["productId"] is None
    assert alice.get(f"/products/{product}/services").status_code == 404


def test_a_service_has_one_product_and_a_product_one_service(alice: Person) -> None:
    service, product = alice.service(), alice.product()
    done(alice.put(PATH, {"serviceId": service, "productId": product}))
    for other in (product, alice.product()):
        answer = alice.put(PATH, {"serviceId": service, "productId": other})
        refused(answer, 409, "The service is already paired with a product.")
    answer = alice.put(PATH, {"serviceId": alice.service(), "productId": product})
    refused(answer, 409, "The product is already paired with a service.")
    assert alice.get(f"/services/{service}").json()["productId"] == product


def test_a_pair_that_does_not_exist_cannot_be_unlinked(alice: Person) -> None:
    service, product = alice.service(), alice.product()
    text = "The service is not paired with the given product."
    refused(alice.delete(PATH, {"serviceId": service, "productId": product}), 409, text)
    done(alice.put(PATH, {"serviceId": service, "productId": product}))
    refused(alice.delete(PATH, {"serviceId": service, "productId": alice.product()}), 409, text)
    assert alice.get(f"/services/{service}").json()["productId"] == product


@both
@pytest.mark.parametrize("value", ["absent", None, "1", 1.5, True])
def test_an_invalid_service_id_is_rejected(alice: Person, method: str, value: Any) -> None:
    body = {"productId": alice.product()} | ({} if value == "absent" else {"serviceId": value})
    refused(alice.call(method, PATH, body), 400, f"Couldn't {WHAT[method]}. No valid serviceId provided.")


@both
@pytest.mark.parametrize("names", [{}, {"productId": None, "serialNumber": "", "uniqueId": " "}])
def test_a_missing_product_identifier_is_rejected(alice: Person, method: str, names: dict[str, Any]) -> None:
    text = f"Couldn't {WHAT[method]}. No valid productId, serialNumber or uniqueId provided."
    refused(alice.call(method, PATH, {"serviceId": alice.service(), **names}), 400, text)


@both
def test_a_missing_service_gets_404(alice: Person, bob: Person, method: str) -> None:
    product = bob.product()
    for service in (2147483647, alice.service()):
        refused(bob.call(method, PATH, {"serviceId": service, "productId": product}), 404, NO_SERVICE)


@both
@pytest.mark.parametrize("id", [0, -1])
def test_an_impossible_id_gets_400(alice: Person, method: str, id: int) -> None:
    """A8: the same as for an installation."""
    text = f"Couldn't {WHAT[method]}. No valid "
    refused(
        alice.call(method, PATH, {"serviceId": id, "productId": alice.product()}), 400, text + "serviceId provided."
    )
    answer = alice.call(method, PATH, {"serviceId": alice.service(), "productId": id})
    refused(answer, 400, text + "productId, serialNumber or uniqueId provided.")


@both
def test_a_missing_product_gets_404(alice: Person, bob: Person, method: str) -> None:
    service = bob.service()
    hers = alice.product(serial_number="HERS-" + method)
    for names in ({"productId": 2147483647}, {"productId": hers}, {"serialNumber": "HERS-" + method}):
        refused(bob.call(method, PATH, {"serviceId": service, **names}), 404, NO_PRODUCT)
