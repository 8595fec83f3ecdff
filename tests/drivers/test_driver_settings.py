"""A customer's settings for its drivers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auth.group_scope import limited
from tests.support.people import Person, Town, done
from tests.support.servers import eventually

SETTINGS = {"phone": "+49 (30) 12-34", "showsPlace": True, "extensionHours": 4}


def test_the_settings_are_stored_per_customer(alice: Person, bob: Person) -> None:
    nothing = {"phone": None, "showsPlace": False, "extensionHours": 0}
    assert alice.get("/driver-settings").json() == nothing
    done(alice.put("/driver-settings", SETTINGS))
    assert alice.get("/driver-settings").json() == SETTINGS
    assert bob.get("/driver-settings").json() == nothing
    done(alice.put("/driver-settings", nothing))
    assert alice.get("/driver-settings").json() == nothing


def test_a_change_is_recorded(carol: Person) -> None:
    done(carol.put("/driver-settings", SETTINGS))
    query = {"$filter": "kind eq 'customer.updated'"}
    (change,) = eventually(lambda: carol.get("/changes", params=query).json(), "the change")
    assert change["after"] == {"driverPhone": "+49 (30) 12-34", "driverShowsPlace": True, "driverExtensionHours": 4}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("phone", "call us"), ("phone", "tel:1;ext=javascript"), ("phone", "1"), ("phone", "1" * 41), ("phone", ""),
        ("extensionHours", -1), ("extensionHours", 721), ("extensionHours", None), ("showsPlace", None),
        ("number", "+49 30 1234"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_400_and_names_its_member(alice: Person, member: str, value: Any) -> None:
    answer = alice.put("/driver-settings", SETTINGS | {member: value}, headers={"Accept": "application/problem+json"})
    assert answer.status_code == 400, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{member}"]


def test_only_managers_of_the_whole_fleet_change_them(alice: Person, town: Town) -> None:
    manager = limited(town, alice, "limited", [alice.group()])
    viewer = town.colleague(alice, "viewer", "Viewer")
    assert manager.get("/driver-settings").status_code == 200
    assert viewer.get("/driver-settings").status_code == 200
    assert manager.put("/driver-settings", SETTINGS).status_code == 403
    assert viewer.put("/driver-settings", SETTINGS).status_code == 403
