"""Behaviour of new members. `test_new_members.py` runs these tests on a copy of the sources that declares them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.changelog.test_audited_tables import changes
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import eventually


def test_a_text_of_cars(alice: Person, bob: Person, dsn: str, tmp_path: Path) -> None:
    car = alice.car(color="petrol")
    assert alice.get(f"/cars/{car}?$select=color").json() == {"color": "petrol"}
    assert "color" not in alice.get(f"/cars/{car}").json(), "a caller of the spec gets the spec's members"
    for query in ("$expand=products", "$select=*", "$filter=color ne 'x'"):
        assert "color" not in alice.get(f"/cars?{query}&$top=1").json()[0], query
    made = alice.put("/clients", {"name": "Program", "scopes": ["cars:read"]}).json()
    program = {"grant_type": "client_credentials", "client_id": made["clientId"], "client_secret": made["clientSecret"]}
    key = {"vendor-API-Key": alice.api_key}
    token = alice.client.post("/oauth2/token", data=program, headers=key).json()["access_token"]
    headers = alice.headers | {"Authorization": f"Bearer {token}"}
    assert alice.get(f"/cars/{car}", headers=headers).json()["color"] == "petrol", "a machine client gets all members"
    step = {"op": "replace", "path": "/color", "value": "grün"}
    assert alice.patch(f"/cars/{car}", [step]).status_code == 204
    assert bob.patch(f"/cars/{car}", [step]).status_code == 404
    refused = alice.patch(f"/cars/{car}", [step | {"value": "x" * 251}])
    assert (refused.status_code, "at most 250 characters" in refused.text) == (400, True)
    assert [row["id"] for row in alice.get("/cars?$filter=color eq 'grün'").json()] == [car]
    assert [row["id"] for row in alice.get("/cars?$search=grun").json()] == [car]
    assert [row["color"] for row in alice.get(f"/positions?$filter=carId eq {car}").json()] == ["grün"]
    created, updated = changes(alice, "car", car)
    assert created["after"]["color"] == "petrol"
    assert (updated["before"], updated["after"]) == ({"color": "petrol"}, {"color": "grün"})
    exported = Operator(dsn).run("export", "--customer", alice.customer, "--to", tmp_path / "out")
    assert exported.returncode == 0, exported.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "cars.jsonl").read_text().splitlines()]
    assert [row["color"] for row in rows if row["id"] == car] == ["grün"]
    imported = Operator(dsn).run("import", "customer", tmp_path / "out", "--name", "Copy")
    assert imported.returncode == 0, imported.stderr
    assert alice.sql.value("select count(*) from car where color = 'grün'") == 2
    assert alice.patch(f"/cars/{car}", [{"op": "remove", "path": "/color"}]).status_code == 204
    assert alice.get(f"/cars/{car}?$select=color").json() == {"color": None}
    schemas = alice.get("/openapi.json").json()["components"]["schemas"]
    for name in ("Car", "NewCar", "Position"):
        assert schemas[name]["properties"]["color"]["description"] == "The color of the paint."


def test_a_date_of_products(alice: Person) -> None:
    product = alice.product()
    assert alice.get(f"/products/{product}?$select=warrantyEnds").json() == {"warrantyEnds": None}
    alice.sql.execute("update product set warranty_ends = '2030-01-02T03:04:05Z' where product_id = $1", product)
    [row] = alice.get("/products?$filter=warrantyEnds gt 2030-01-01T00:00:00Z&$select=id,warrantyEnds").json()
    assert row == {"id": product, "warrantyEnds": "2030-01-02T03:04:05Z"}
    [*_, updated] = changes(alice, "product", product)
    assert (updated["before"], set(updated["after"])) == ({"warrantyEnds": None}, {"warrantyEnds"})


def test_a_required_text_of_groups_with_a_default(alice: Person) -> None:
    group = alice.group()
    assert alice.get(f"/groups/{group}?$select=purpose").json() == {"purpose": "Team"}
    other = alice.put("/groups", {"name": "Pool", "purpose": "Pool"}).json()["id"]
    assert [row["id"] for row in alice.get("/groups?$filter=purpose eq 'Pool'").json()] == [other]
    assert alice.put("/groups", {"name": "None", "purpose": None}).status_code == 400
    for value, status in (("Depot", 204), ("Team", 204), ("x" * 251, 400)):
        step = {"op": "replace", "path": "/purpose", "value": value}
        assert alice.patch(f"/groups/{group}", [step]).status_code == status
    created, first, second = eventually(lambda: len(found := changes(alice, "group", group)) == 3 and found, "changes")
    assert "purpose" not in created["after"], "a default is not recorded"
    assert (first["before"], first["after"]) == ({"purpose": None}, {"purpose": "Depot"})
    assert (second["before"], second["after"]) == ({"purpose": "Depot"}, {"purpose": None})


def test_a_text_of_webhooks(alice: Person, dsn: str, tmp_path: Path) -> None:
    webhook = alice.put("/webhooks", {"url": "https://example.org/", "receiverName": "Dispatch"}).json()["id"]
    row = f"/webhooks/{webhook}"
    assert alice.get(row).json()["receiverName"] == "Dispatch"
    step = {"op": "replace", "path": "/receiverName", "value": "Depot"}
    assert alice.patch(row, [step]).status_code == 204
    assert alice.patch(row, [step | {"value": "x" * 251}]).status_code == 400
    created, updated = changes(alice, "webhook", webhook)
    assert created["after"]["receiverName"] == "Dispatch"
    assert (updated["before"], updated["after"]) == ({"receiverName": "Dispatch"}, {"receiverName": "Depot"})
    exported = Operator(dsn).run("export", "--customer", alice.customer, "--to", tmp_path / "out")
    assert exported.returncode == 0, exported.stderr
    imported = Operator(dsn).run("import", "customer", tmp_path / "out", "--name", "Copy of webhooks")
    assert imported.returncode == 0, imported.stderr
    assert alice.sql.value("select count(*) from webhook where receiver_name = 'Depot'") == 2
    assert alice.patch(row, [{"op": "remove", "path": "/receiverName"}]).status_code == 204
    assert alice.get(row).json()["receiverName"] is None
    schemas = alice.get("/openapi.json").json()["components"]["schemas"]
    for name in ("Webhook", "NewWebhook"):
        assert schemas[name]["properties"]["receiverName"]["description"] == "Who receives its messages."
