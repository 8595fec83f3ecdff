"""Installations of products in cars."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.people import Person, done, refused
from tests.support.servers import Sql, eventually

PATH = "/installations"
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
NO_PRODUCT = "Unable to find a product for the given parameters which is assigned to the given customerId."


def ready(person: Person, kind: str = "Box", **columns: Any) -> int:
    """A product with a service, which can be installed."""
    product = person.product(kind, **columns)
    person.service(product)
    return product


@pytest.mark.parametrize("by", ["productId", "serialNumber", "uniqueId"])
def test_install_and_uninstall(alice: Person, by: str) -> None:
    car, product = alice.car(), ready(alice)
    body = {"carId": car, by: alice.get(f"/products/{product}").json()["id" if by == "productId" else by]}
    others = {"productId": None, "serialNumber": None, "uniqueId": ""}
    done(alice.put(PATH, others | body))
    assert [row["id"] for row in alice.get(f"/cars/{car}/products").json()] == [product]
    done(alice.delete(PATH, others | body))
    assert alice.get(f"/cars/{car}/products").status_code == 404
    done(alice.put(PATH, body))


def test_several_identifiers_must_match_one_product(alice: Person) -> None:
    car, one, other = alice.car(), ready(alice), ready(alice)
    serial = {product: alice.get(f"/products/{product}").json()["serialNumber"] for product in (one, other)}
    for method in ("PUT", "DELETE"):
        body = {"carId": car, "productId": one, "serialNumber": serial[other]}
        refused(alice.call(method, PATH, body), 404, NO_PRODUCT)
        done(alice.call(method, PATH, {"carId": car, "productId": one, "serialNumber": serial[one]}))


def test_a_car_holds_a_box_and_an_iq_unit(alice: Person) -> None:
    car = alice.car()
    box, iq = ready(alice), ready(alice, "IQ")
    for product in (box, iq):
        done(alice.put(PATH, {"carId": car, "productId": product}))
    assert [row["id"] for row in alice.get(f"/cars/{car}/products").json()] == [box, iq]


@pytest.mark.parametrize(("method", "what"), [("PUT", "install"), ("DELETE", "uninstall")])
@pytest.mark.parametrize("value", ["absent", None, "1", 1.5, True])
def test_an_invalid_car_id_is_rejected(alice: Person, method: str, what: str, value: Any) -> None:
    body = {"productId": ready(alice)} | ({} if value == "absent" else {"carId": value})
    refused(alice.call(method, PATH, body), 400, f"Couldn't {what} product. No valid carId provided.")


@pytest.mark.parametrize(("method", "what"), [("PUT", "install"), ("DELETE", "uninstall")])
@pytest.mark.parametrize(
    "names",
    [{}, {"productId": None, "serialNumber": None, "uniqueId": None}, {"serialNumber": "", "uniqueId": " \t"}],
)
def test_a_missing_product_identifier_is_rejected(alice: Person, method: str, what: str, names: dict[str, Any]) -> None:
    text = f"Couldn't {what} product. No valid productId, serialNumber or uniqueId provided."
    refused(alice.call(method, PATH, {"carId": alice.car(), **names}), 400, text)


@pytest.mark.parametrize(("method", "what"), [("PUT", "install"), ("DELETE", "uninstall")])
@pytest.mark.parametrize(("member", "value"), [("productId", "1"), ("serialNumber", 5), ("uniqueId", "a\0")])
def test_a_product_identifier_of_the_wrong_type_is_rejected(
    alice: Person, method: str, what: str, member: str, value: Any
) -> None:
    answer = alice.call(method, PATH, {"carId": alice.car(), member: value})
    refused(answer, 400, f"Couldn't {what} product. No valid {member} provided.")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_missing_car_gets_404(alice: Person, bob: Person, method: str) -> None:
    product = ready(bob)
    for car in (2147483647, alice.car()):
        refused(bob.call(method, PATH, {"carId": car, "productId": product}), 404, NO_CAR)
        refused(bob.call(method, PATH, {"carId": car, "productId": 2147483647}), 404, NO_CAR)


@pytest.mark.parametrize(("method", "what"), [("PUT", "install"), ("DELETE", "uninstall")])
@pytest.mark.parametrize("id", [0, -1, -2147483648])
def test_an_impossible_id_gets_400(alice: Person, method: str, what: str, id: int) -> None:
    """A8: 400 as in the table of conditions, not 404."""
    product = ready(alice)
    text = f"Couldn't {what} product. No valid "
    refused(alice.call(method, PATH, {"carId": id, "productId": product}), 400, text + "carId provided.")
    for names in ({"productId": id}, {"productId": id, "serialNumber": "\u00a0", "uniqueId": "\u200b"}):
        answer = alice.call(method, PATH, {"carId": alice.car(), **names})
        refused(answer, 400, text + "productId, serialNumber or uniqueId provided.")
    serial = alice.get(f"/products/{product}").json()["serialNumber"]
    answer = alice.call(method, PATH, {"carId": alice.car(), "productId": id, "serialNumber": serial})
    refused(answer, 404, NO_PRODUCT)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_missing_product_gets_404(alice: Person, bob: Person, method: str) -> None:
    car = bob.car()
    hers = ready(alice, unique_id="HERS-" + method, serial_number="HERS-" + method)
    for names in ({"productId": 2147483647}, {"productId": hers}):
        refused(bob.call(method, PATH, {"carId": car, **names}), 404, NO_PRODUCT)
    for member in ("serialNumber", "uniqueId"):
        for value in ("nobody's", "HERS-" + method):
            refused(bob.call(method, PATH, {"carId": car, member: value}), 404, NO_PRODUCT)


def test_two_customers_may_have_the_same_serial_number(alice: Person, bob: Person) -> None:
    for person in (alice, bob):
        car = person.car()
        product = ready(person, serial_number="SAME", unique_id="SAME")
        done(person.put(PATH, {"carId": car, "serialNumber": "SAME"}))
        assert [row["id"] for row in person.get(f"/cars/{car}/products").json()] == [product]


def test_an_installed_product_gets_409(alice: Person) -> None:
    car, product = alice.car(), ready(alice)
    done(alice.put(PATH, {"carId": car, "productId": product}))
    for where in (car, alice.car()):
        answer = alice.put(PATH, {"carId": where, "productId": product})
        refused(answer, 409, "The product is already installed into a car.")


def test_a_product_without_a_service_gets_409(alice: Person) -> None:
    answer = alice.put(PATH, {"carId": alice.car(), "productId": alice.product()})
    refused(answer, 409, "The product has no service assigned.")


@pytest.mark.parametrize("kind", ["Box", "IQ"])
def test_a_second_product_of_the_same_type_gets_409(alice: Person, kind: str) -> None:
    car = alice.car()
    first = alice.box_in(car, kind)
    answer = alice.put(PATH, {"carId": car, "productId": ready(alice, kind)})
    refused(answer, 409, "There is already installed a product of the same type in the car.")
    assert [row["id"] for row in alice.get(f"/cars/{car}/products").json()] == [first]


def test_a_product_that_is_not_installed_gets_409(alice: Person) -> None:
    answer = alice.delete(PATH, {"carId": alice.car(), "productId": ready(alice)})
    refused(answer, 409, "The product is already uninstalled.")


def test_a_product_in_another_car_gets_409(alice: Person) -> None:
    product = alice.box_in(alice.car())
    answer = alice.delete(PATH, {"carId": alice.car(), "productId": product})
    refused(answer, 409, "The product is not assigned to the given car.")
    assert alice.get(f"/products/{product}/cars").status_code == 200


def test_removing_the_box_ends_the_assignments(alice: Person, sql: Sql) -> None:
    car, user = alice.car(), alice.user()
    box, iq = alice.box_in(car), alice.box_in(car, "IQ")
    assignments = {alice.assignment(car, user), alice.assignment(car, alice.user())}
    done(alice.delete(PATH, {"carId": car, "productId": iq}))
    assert {row["id"] for row in alice.get(f"/cars/{car}/assignments").json()} == assignments
    done(alice.delete(PATH, {"carId": car, "productId": box}))
    eventually(lambda: alice.get(f"/cars/{car}/assignments").json() == [], "the end of the assignments")
    rows = sql.rows(
        "select assignment_id, cause, state, checksum from operation"
        " where customer_id = $1 and car_id = $2 and kind = 'DeleteAssignment'",
        alice.customer,
        car,
    )
    assert {(row["assignment_id"], row["cause"], row["state"]) for row in rows} == {
        (assignment, "Uninstallation", "Succeeded") for assignment in assignments
    }
    assert len({row["checksum"] for row in rows}) == 1
