"""Exports and imports keep `externalId` and `metadata`."""

from __future__ import annotations

from pathlib import Path

from tests.assignments.test_references import booked, outcome
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town
from tests.support.servers import NUMBERS

STORED = """
select 'car' as resource, external_id, metadata::text from car where customer_id = $1
union all select 'user', external_id, metadata::text from customer_user where customer_id = $1
union all select 'product', external_id, metadata::text from product where customer_id = $1
union all select 'group', external_id, metadata::text from fleet_group where customer_id = $1
union all select 'assignment', external_id, metadata::text from assignment where customer_id = $1
union all select 'webhook', external_id, metadata::text from webhook where customer_id = $1
order by 1, 2, 3
"""


def test_an_export_and_its_import_are_equal(town: Town, dsn: str, tmp_path: Path) -> None:
    person = town.person("moving")

    def references(name: str) -> dict[str, object]:
        return {"externalId": f"{name}-{next(NUMBERS)}", "metadata": {"plan": "gold", "site": "Köln"}}

    operator = Operator(dsn)
    person.car("Without")
    person.put("/cars", {"name": "With", **references("car")}).raise_for_status()
    user = person.user(**references("user"))
    person.put("/groups", {"name": "With", **references("group")}).raise_for_status()
    person.put("/webhooks", {"url": "https://example.org/", **references("webhook")}).raise_for_status()
    car = person.car_with_box()
    product = person.get(f"/cars/{car}/products").json()[0]["id"]
    changed = operator.value("product", "change", product, "--external-id", "BX-1", "--meta", "shelf=7", "--meta", "a=")
    assert changed == {"id": product}
    assert outcome(person, booked(person, car, user, **references("booking")))["state"] == "Succeeded"
    assert operator.run("export", "--customer", person.customer, "--to", tmp_path / "out").returncode == 0
    imported = operator.value("import", "customer", tmp_path / "out", "--name", "Moved")
    before, after = (person.sql.rows(STORED, customer) for customer in (person.customer, imported["id"]))
    assert before == after
    assert ("product", "BX-1", '{"shelf": "7"}') in [tuple(row) for row in before]
    assert len([row for row in before if row[1] is not None]) == 6


def test_commands_set_and_show_the_references_of_products(alice: Person, dsn: str) -> None:
    operator = Operator(dsn)
    numbers = [f"{next(NUMBERS)}" for _ in range(3)]
    options = ["--serial-number", numbers[0], "--unique-id", numbers[1], "--sap-number", "1", "--type", "vendor Box"]
    made = operator.value(
        "product", "add", "--customer", alice.customer, *options, "--external-id", "P-1", "--meta", "shelf=7"
    )
    [row] = [row for row in operator.value("product", "list", "--customer", alice.customer) if row["id"] == made["id"]]
    assert (row["externalId"], row["metadata"]) == ("P-1", {"shelf": "7"})
    other = alice.product()
    assert "this external id" in operator.refused("product", "change", other, "--external-id", "P-1")
    for wrong in (["--external-id", " x"], ["--meta", "noequals"], ["--meta", "k" * 41 + "=x"]):
        assert operator.run("product", "change", other, *wrong).returncode == 2, wrong
    assert operator.value("product", "change", made["id"], "--external-id", "") == {"id": made["id"]}
    assert operator.value("product", "change", other, "--external-id", "P-1") == {"id": other}


def test_a_patch_of_a_product_changes_its_references(alice: Person, bob: Person) -> None:
    product = alice.product()
    path = f"/products/{product}"
    steps = [
        {"op": "replace", "path": "/externalId", "value": "Patched"},
        {"op": "replace", "path": "/metadata/shelf", "value": "7"},
    ]
    assert alice.patch(path, steps).status_code == 204
    assert bob.patch(path, steps).status_code == 404
    shown = alice.get(f"{path}?$select=externalId,metadata").json()
    assert shown == {"externalId": "Patched", "metadata": {"shelf": "7"}}
    name = [{"op": "replace", "path": "/serialNumber", "value": "x"}]
    assert alice.patch(path, name).status_code == 400
    assert alice.patch(f"/products/{alice.product()}", steps[:1]).status_code == 409
