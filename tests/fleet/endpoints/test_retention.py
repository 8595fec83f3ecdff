"""Retention: the data of a customer, how long each kind is kept, and its oldest entry."""

from __future__ import annotations

from typing import Any

from keyrack.core.settings import Settings
from tests.support.people import Person


def kept(person: Person) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in person.get("/retention").json()}


def test_each_kind_of_data_has_its_retention(carol: Person, settings: Settings) -> None:
    told = kept(carol)
    assert {kind: each["keptFor"] for kind, each in told.items()} == {
        "assignments": None,
        "events": None,
        "operations": f"P{settings.operation_retention_days}D",
        "deliveries": f"P{settings.delivery_retention_days}D",
        "changes": f"P{settings.changelog_retention_days}D",
        "positions": f"P{settings.telemetry_retention_days}D",
        "odometer": f"P{settings.telemetry_retention_days}D",
        "telemetry": None,
        "series": f"P{settings.telemetry_retention_days}D",
        "answers": f"PT{settings.idempotency_hours}H",
        "people": f"P{settings.orphaned_person_retention_days}D",
        "sessions": f"PT{settings.session_hours}H",
        "keys": f"P{settings.offline_key_retention_days}D",
    }
    assert {each["oldest"] for each in told.values()} == {None}
    assert told["operations"]["setting"] == "KEYRACK_OPERATION_RETENTION_DAYS"
    assert all(each["kept"] and each["countsFrom"] for each in told.values())


def test_retention_shows_the_oldest_entry_of_the_customer(carol: Person, alice: Person) -> None:
    hook = carol.put("/webhooks", {"url": "http://127.0.0.1:9/nobody"})
    assert hook.status_code == 201
    car, user = carol.car_with_box(), carol.user()
    carol.assignment(car, user, "2026-01-02T08:00:00Z")
    carol.event(car, user, utcDateTime="2026-04-01T08:00:00Z")
    told = kept(carol)
    assert told["assignments"]["oldest"] == "2026-01-02T08:00:00Z"
    assert told["events"]["oldest"] == "2026-04-01T08:00:00Z"
    (operation,) = carol.get("/operations").json()
    assert told["operations"]["oldest"] == operation["finished"][:19] + "Z"
    assert told["deliveries"]["oldest"] is not None
    assert {each["oldest"] for each in kept(alice).values()} == {None}


def test_settings_of_a_customer_override_the_retention(carol: Person) -> None:
    sql = "update customer set history_days = 7, keeps_positions = false where customer_id = $1"
    before = carol.get("/retention").headers["ETag"]
    carol.sql.execute(sql, carol.customer)
    told = carol.get("/retention", headers={"If-None-Match": before})
    assert told.status_code == 200
    rows = {each["kind"]: each for each in told.json()}
    assert (rows["positions"]["kept"], rows["positions"]["keptFor"]) == (False, None)
    for kind in ("odometer", "series"):
        assert (rows[kind]["keptFor"], rows[kind]["setting"]) == ("P7D", None)
    again = carol.get("/retention", headers={"If-None-Match": told.headers["ETag"]})
    assert again.status_code == 304
