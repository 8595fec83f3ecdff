"""Changes that end a key, in status list, phone and change log.

A box refuses the key afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import is_revoked, one_key, revocations
from tests.offline_keys.offline_world import DAY, Firmware, Phone, confirm, driver, garage, raw
from tests.support.people import Person, done
from tests.support.servers import eventually

MANAGER, OPERATOR, APP, SYSTEM = "manager", "operator", "user", "system"


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@dataclass
class Scene:
    """Kim and Lee have keys of the same box."""

    alice: Person
    operator: Operator
    car: int
    box: Firmware
    kim: Phone
    lee: Phone
    assignment: int
    key: bytes
    other: bytes

    def patched(self, **members: Any) -> None:
        steps = [
            {"op": "remove", "path": f"/{name}"}
            if value is None
            else {"op": "replace", "path": f"/{name}", "value": value}
            for name, value in members.items()
        ]
        done(self.alice.patch(f"/assignments/{self.assignment}", steps))

    def command(self, *words: object) -> None:
        self.operator.value(*words)

    def service(self) -> int:
        return self.alice.sql.value(
            "select service_id from service where customer_id = $1 and product_id = $2",
            self.alice.customer, self.box.product,
        )  # fmt: skip

    def applied(self) -> None:
        """Wait until no request is pending."""
        pending = "select exists (select from operation where customer_id = $1 and state = 'Pending')"
        eventually(lambda: not self.alice.sql.value(pending, self.alice.customer), "what was asked for")


def scene(alice: Person, operator: Operator) -> Scene:
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    assignment = alice.assignment(car, kim.user, lifetime=10 * DAY)
    alice.assignment(car, lee.user)
    key, other = one_key(kim, box), one_key(lee, box)
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert lee.open(box) is BoxRefusalCode.GOOD
    return Scene(alice, operator, car, box, kim, lee, assignment, key, other)


def whose(change: dict[str, Any]) -> str:
    """The actor of a change, also of one that a worker has applied."""
    actor = change["actor"]
    return change["onBehalfOf"]["type"] if actor["type"] == "system" else actor["type"]


def hours(number: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _removed(scene: Scene) -> None:
    done(scene.alice.delete("/users/assignments/customers", {"userId": scene.kim.user}))


ONE: dict[str, tuple[Callable[[Scene], object], str]] = {
    "ended": (lambda s: done(s.alice.delete(f"/assignments/{s.assignment}")), MANAGER),
    "ends earlier": (lambda s: s.patched(end=hours(5)), MANAGER),
    "starts later": (lambda s: s.patched(start=hours(5)), MANAGER),
    "another car": (lambda s: s.patched(carId=s.alice.car_with_box()), MANAGER),
    "another user": (lambda s: s.patched(userId=s.alice.user()), MANAGER),
    "a shorter life": (lambda s: s.patched(lifetime=8 * DAY), MANAGER),
    "user taken out": (_removed, MANAGER),
    "erased": (lambda s: done(s.alice.post(f"/users/{s.kim.user}/erase")), MANAGER),
    "erased by the operator": (lambda s: s.command("user", "erase", s.kim.user, "--yes"), OPERATOR),
    "phone removed by its user": (lambda s: done(s.kim.call("DELETE", f"/sdk/devices/{s.kim.id}")), APP),
    "phone removed": (lambda s: done(s.alice.delete(f"/users/{s.kim.user}/devices/{s.kim.id}")), MANAGER),
}


@pytest.mark.parametrize("way", ONE)
def test_changes_that_revoke_one_key(alice: Person, operator: Operator, way: str) -> None:
    s = scene(alice, operator)
    do, actor = ONE[way]
    do(s)
    s.applied()
    assert is_revoked(alice, s.key)
    assert not is_revoked(alice, s.other)
    answer = s.kim.call("GET", "/sdk/keys", params={"device": s.kim.id})
    if answer.status_code == 200:
        s.kim.held = answer.json()
        assert s.key not in s.kim.keys(s.box)
    else:
        assert answer.status_code in (401, 404), answer.text
    ended = eventually(lambda: revocations(alice, s.key), "the end in the log")
    assert [whose(change) for change in ended] == [actor]
    assert revocations(alice, s.other) == []
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.GOOD, "nobody has told the box"
    s.lee.fetch()
    assert s.lee.visit(s.box) is BoxRefusalCode.GOOD
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.REVOKED


ALL: dict[str, tuple[Callable[[Scene], object], str]] = {
    "box taken out": (
        lambda s: done(s.alice.delete("/installations", {"carId": s.car, "productId": s.box.product})), MANAGER,
    ),
    "service terminated": (lambda s: s.command("service", "change", s.service(), "--terminate"), OPERATOR),
    "car deleted": (lambda s: done(s.alice.delete(f"/cars/{s.car}")), MANAGER),
}  # fmt: skip


@pytest.mark.parametrize("way", ALL)
def test_changes_that_revoke_all_keys_of_a_box(alice: Person, operator: Operator, way: str) -> None:
    s = scene(alice, operator)
    do, actor = ALL[way]
    do(s)
    assert is_revoked(alice, s.key), "at once, whatever is still to be done to assignments"
    assert is_revoked(alice, s.other)
    s.applied()
    for phone, key in ((s.kim, s.key), (s.lee, s.other)):
        held = phone.fetch()
        assert (held["keys"], held["withheld"]) == ([], [])
        (ended,) = eventually(lambda key=key: revocations(alice, key), "the end in the log")
        assert ended["actor"]["type"] == actor
    status = alice.get(f"/boxes/{s.box.product}/status").json()["statusList"]
    assert s.box.carry(raw(status)) == 0
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.REVOKED
    assert s.lee.open(s.box, key=s.other) is BoxRefusalCode.REVOKED


def test_the_end_of_a_pairing_revokes_keys(alice: Person, operator: Operator) -> None:
    s = scene(alice, operator)
    answer = alice.delete("/pairings", {"serviceId": s.service(), "productId": s.box.product})
    if answer.status_code == 409:  # while the box is in a car
        assert not is_revoked(alice, s.key)
        done(alice.delete("/installations", {"carId": s.car, "productId": s.box.product}))
        done(alice.delete("/pairings", {"serviceId": s.service(), "productId": s.box.product}))
    assert is_revoked(alice, s.key)
    assert is_revoked(alice, s.other)


def test_a_reinstated_service_leads_to_new_keys(alice: Person, operator: Operator) -> None:
    s = scene(alice, operator)
    service = s.service()
    s.command("service", "change", service, "--terminate")
    assert s.kim.fetch()["keys"] == []
    s.command("service", "change", service, "--reinstate")
    again = one_key(s.kim, s.box)
    assert again != s.key
    assert (is_revoked(alice, s.key), is_revoked(alice, again)) == (True, False)
    s.kim.bring(s.box)
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.REVOKED
    assert s.kim.open(s.box) is BoxRefusalCode.GOOD


def test_another_enrolment_of_the_box_revokes_keys(alice: Person, operator: Operator) -> None:
    s = scene(alice, operator)
    s.box.key = PrivateKey.generate()
    s.box.reset()
    assert s.box.enrol(alice)["epoch"] > 1
    assert not is_revoked(alice, s.key), "until the box has shown that it has the new key"
    confirm(alice, s.box)
    assert is_revoked(alice, s.key)
    assert is_revoked(alice, s.other)
    again = one_key(s.kim, s.box)
    s.kim.bring(s.box)
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.AUDIENCE
    assert s.kim.open(s.box, key=again) is BoxRefusalCode.GOOD
    (ended,) = eventually(lambda: revocations(alice, s.key), "the end in the log")
    assert ended["actor"]["type"] == APP


def test_a_revoked_issuing_key_revokes_its_keys(carol: Person, operator: Operator) -> None:
    s = scene(carol, operator)
    s.command("keys", "rotate", "--customer", carol.customer, "--revoke", "--yes")
    assert is_revoked(carol, s.key)
    assert is_revoked(carol, s.other)
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.GOOD, "nobody has told the box"
    again = one_key(s.lee, s.box)
    assert again != s.other
    assert s.lee.visit(s.box) is BoxRefusalCode.GOOD
    assert s.kim.open(s.box, key=s.key) in (BoxRefusalCode.REFUSED, BoxRefusalCode.ISSUING_KEY)
    assert s.box.code is BoxRefusalCode.ISSUING_KEY
    (ended,) = eventually(lambda: revocations(carol, s.key), "the end in the log")
    assert ended["actor"]["type"] == OPERATOR


NOTHING: dict[str, Callable[[Scene], object]] = {
    "no end any more": lambda s: s.patched(end=None),
    "a longer life": lambda s: s.patched(lifetime=20 * DAY),
    "started before": lambda s: s.patched(start="2025-01-01T00:00:00Z"),
    "started later, and yet before the key": lambda s: s.patched(start=hours(-5)),
    "an end behind the key's": lambda s: s.patched(end=hours(24 * 30)),
    "renewed more often": lambda s: s.patched(renewableAfter=60),
    "a car's name": lambda s: s.alice.patch(f"/cars/{s.car}", [{"op": "replace", "path": "/name", "value": "New"}]),
    "another user's assignment": lambda s: s.alice.assignment(s.car, s.alice.user()),
    "another user": lambda s: s.alice.delete("/users/assignments/customers", {"userId": s.lee.user}),
    "a phone of another user": lambda s: s.lee.call("DELETE", f"/sdk/devices/{s.lee.id}"),
    "another phone of the user": lambda s: _second(s),
    "the phone's name": lambda s: s.kim.register("Another name"),
    "a service's name": lambda s: s.command("service", "change", s.service(), "--name", "New"),
    "a policy": lambda s: s.command("keys", "policy", "--customer", s.alice.customer, "--limit", "28d"),
}


def _second(s: Scene) -> None:
    second = Phone(s.alice, s.kim.user, token=s.kim.token)
    second.register()
    second.fetch()
    done(s.kim.call("DELETE", f"/sdk/devices/{second.id}"))


@pytest.mark.parametrize("way", NOTHING)
def test_changes_that_revoke_no_key(alice: Person, operator: Operator, way: str) -> None:
    s = scene(alice, operator)
    NOTHING[way](s)
    s.applied()
    assert not is_revoked(alice, s.key)
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.GOOD


def test_a_removed_telemetry_unit_revokes_no_key(alice: Person, operator: Operator) -> None:
    s = scene(alice, operator)
    unit = alice.box_in(s.car, "IQ")
    done(alice.delete("/installations", {"carId": s.car, "productId": unit}))
    s.applied()
    assert not is_revoked(alice, s.key)
    assert one_key(s.kim, s.box) == s.key


def test_a_box_moved_to_another_car_revokes_keys(alice: Person, operator: Operator) -> None:
    s = scene(alice, operator)
    done(alice.delete("/installations", {"carId": s.car, "productId": s.box.product}))
    s.applied()
    there = alice.car()
    done(alice.put("/installations", {"carId": there, "productId": s.box.product}))
    assert s.kim.fetch()["keys"] == []
    alice.assignment(there, s.kim.user)
    again = one_key(s.kim, s.box)
    assert (is_revoked(alice, s.key), is_revoked(alice, again)) == (True, False)
    s.kim.bring(s.box)
    assert s.kim.open(s.box) is BoxRefusalCode.GOOD
    assert s.kim.open(s.box, key=s.key) is BoxRefusalCode.REVOKED
