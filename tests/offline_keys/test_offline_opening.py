"""A car in a garage, opened without a network and reported later."""

from __future__ import annotations

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.offline_world import DAY, driver, garage
from tests.support.people import Person
from tests.support.servers import eventually


def test_a_box_opens_for_a_user_with_an_assignment(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    assignment = alice.assignment(car, kim.user)
    held = kim.fetch()
    assert [(key["assignmentId"], key["carId"]) for key in held["keys"]] == [(assignment, car)]
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.close(box) is BoxRefusalCode.GOOD
    answer = kim.home()
    assert answer["refused"] == []
    events = alice.get(f"/cars/{car}/events?$orderby=id").json()
    assert [(event["type"], event["userId"]) for event in events] == [
        ("CarOpened", kim.user),
        ("CarClosed", kim.user),
    ]


def test_the_end_of_an_assignment_ends_its_key(alice: Person) -> None:
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    assignment = alice.assignment(car, kim.user)
    alice.assignment(car, lee.user)
    kim.fetch()
    alice.delete(f"/assignments/{assignment}")
    eventually(lambda: not kim.call("GET", "/sdk/keys", params={"device": kim.id}).json()["keys"], "no key any more")
    assert kim.open(box) is BoxRefusalCode.GOOD, "nobody has told the box"
    lee.fetch()
    assert lee.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box) is BoxRefusalCode.REVOKED
    box.tick += 8 * DAY
    assert kim.open(box) is BoxRefusalCode.EXPIRED
