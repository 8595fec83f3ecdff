"""Discarded enrolments are restored if their box is in use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from keyrack.api.permissions import Permission, Role
from keyrack.core.settings import Settings
from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import Enrol
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth.test_access_matrix import client
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Logbook, is_revoked
from tests.offline_keys.offline_world import Firmware, Phone, b64, confirm, driver, raw
from tests.offline_keys.test_pending_enrolments import (
    DEAD_EPOCHS,
    NOT_ENROLLED,
    NOT_PENDING,
    OTHER_KEY,
    SAME_MANAGER,
    Scene,
    approval,
    at_work,
    colleague,
    enrolled_from_afar,
    needs_two,
    operator,
    path,
    scene,
    state,
)
from tests.support.log_lines import captured_events
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer, Sql, eventually

__all__ = ["at_work", "colleague", "needs_two", "operator"]

NO_BOX = "There is no box with this name and epoch."
IN_USE = "The pending enrolment is in use: its key has signed an entry."
OTHER_PENDING = "The enrolment of this box was discarded or replaced, and another enrolment of the product is pending."
USED_KEY = "The box had this key in an earlier epoch."
RETURNED = "discarded enrolment restored"
CONTESTED = "discarded enrolment in use"
NO_LIST = "The box has no such status list."
PENDING_ROWS = """
select count(*) from box_epoch where customer_id = $1 and product_id = $2 and is_pending and discarded_at is null
"""


def thumbprint(key: PrivateKey) -> str:
    return b64(key.public.thumbprint)


def undo(person: Person, box: Firmware, key: PrivateKey) -> None:
    """Undo the pending enrolment of this key, in use or not."""
    done(person.delete(path(box, f"enrolment?thumbprint={thumbprint(key)}")))


def pending(person: Person, box: Firmware) -> dict[str, Any]:
    shown = state(person, box)["pending"]
    assert shown is not None
    return shown


def approve(person: Person, box: Firmware, key: PrivateKey) -> None:
    done(person.post(path(box, "enrolment/approval"), approval(key)))


def deliver(phone: Phone, *entries: bytes) -> list[str]:
    """Upload entries. Returns the reasons for refused ones."""
    phone.entries = list(entries)
    return [each["reason"] for each in phone.home()["refused"]]


@pytest.fixture
def in_use(at_work: Scene) -> Scene:
    """A box that opens under a new enrolment, before an entry of it arrives."""
    at_work.reset()
    at_work.kim.fetch()
    assert at_work.kim.visit(at_work.box) is BoxRefusalCode.GOOD
    return at_work


# Restoring


def test_an_enrolment_of_a_box_in_use_is_restored(in_use: Scene, alice: Person) -> None:
    kim, box, name = in_use.kim, in_use.box, in_use.box.challenge().name
    key = kim.key_for(box.challenge())
    with captured_events(RETURNED) as alerts:
        done(alice.delete(path(box)))
        assert state(alice, box) == in_use.first
        assert [each["box"] for each in kim.fetch()["keys"]] == [in_use.first["name"]], "no key while it is discarded"
        refused(alice.get(path(box, f"status?epoch={name.rpartition(':')[2]}")), 404, NO_LIST)
        assert alerts == []
        home = kim.home()
    assert (home["refused"], [each["box"] for each in home["receipts"]]) == ([], [name])
    assert [(line["product"], line["alert"]) for line in alerts] == [(box.product, True)]
    shown = state(alice, box)
    assert shown["epoch"] == in_use.first["epoch"], "it does not come into force"
    assert shown["pending"] | {"enrolled": ""} == {
        "epoch": int(name.rpartition(":")[2]), "name": name, "thumbprint": thumbprint(box.key), "enrolled": "",
        "isProven": True, "needsApproval": True, "isApproved": False, "hasReturned": True, "isContested": False,
    }  # fmt: skip
    assert kim.fetch()["keys"][1]["key"] == b64(key), "a phone without a network need not fetch another one"
    assert kim.visit(box) is BoxRefusalCode.GOOD
    home = kim.home()
    assert (home["refused"], len(home["receipts"])) == ([], 1)
    assert kim.bring(box), "a receipt, at least"
    opened = [event for event in alice.get("/events?$orderby=id").json() if event["type"] == "CarOpened"]
    assert [event["userAgent"] for event in opened if event["carId"] == kim.held["keys"][0]["carId"]] == [
        f"Keyrack key, {in_use.first['name']}",
        *[f"Keyrack key, {name}, enrolment pending"] * 2,
    ]


def test_the_server_signs_only_the_time_for_a_discarded_enrolment(in_use: Scene, alice: Person, bob: Person) -> None:
    """Only the time, and only for a user who has a key."""
    kim, box = in_use.kim, in_use.box
    done(alice.delete(path(box)))
    nonce = b64(box.challenge().nonce)
    asked = {"box": box.challenge().name, "nonce": nonce}
    assert kim.call("POST", "/sdk/time", asked).status_code == 200
    for other in (driver(alice), driver(bob)):
        assert other.call("POST", "/sdk/time", asked).status_code == 404
    wanted = f"provisioning?nonce={nonce}&thumbprint={thumbprint(box.key)}"
    refused(alice.get(path(box, wanted)), 404, NOT_ENROLLED)
    refused(alice.post(path(box, "enrolment/approval"), approval(box.key)), 409, NOT_PENDING)
    kim.home()
    assert alice.get(path(box, wanted)).status_code == 200


def test_a_replaced_enrolment_is_restored_instead_of_the_other_one(in_use: Scene, alice: Person) -> None:
    kim, box = in_use.kim, in_use.box
    other = in_use.attack()
    assert pending(alice, box)["name"] == other["name"]
    assert kim.home()["refused"] == []
    assert (pending(alice, box)["thumbprint"], pending(alice, box)["hasReturned"]) == (thumbprint(box.key), True)
    assert [each["box"] for each in kim.fetch()["keys"]] == [in_use.first["name"], box.challenge().name]
    approve(alice, box, box.key)
    shown = state(alice, box)
    assert (shown["name"], shown["pending"]) == (box.challenge().name, None)
    assert deliver(kim, Logbook(box, other["name"], in_use.laptop).entry()) == [], "it was discarded in turn"
    assert pending(alice, box)["thumbprint"] == thumbprint(in_use.laptop)


def test_a_laptop_ends_no_box_after_the_undo(at_work: Scene, alice: Person) -> None:
    kim, made = at_work.kim, at_work.attack()
    done(alice.delete(path(at_work.box)))
    book = Logbook(at_work.box, made["name"], at_work.laptop)
    for _ in range(3):
        assert deliver(kim, book.entry()) == []
        assert state(alice, at_work.box)["epoch"] == at_work.first["epoch"]
    assert kim.visit(at_work.box) is BoxRefusalCode.GOOD
    assert [each["box"] for each in kim.home()["receipts"]] == [at_work.first["name"]]
    undo(alice, at_work.box, at_work.laptop)
    assert state(alice, at_work.box) | {"log": {}} == at_work.first | {"log": {}}


def test_the_log_continues_after_a_restored_enrolment(needs_two: Scene, carol: Person) -> None:
    """Earlier entries are not published again, and nothing is given up."""
    box, kim = needs_two.reset(), needs_two.kim
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    first = list(kim.entries)
    kim.home()
    kim.bring(box)  # the receipt, which frees these entries
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    kim.bring(box)
    undo(carol, box, box.key)
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    assert deliver(kim, *first) == [], "once more"
    approve_as_second(carol, box)
    shown = state(carol, box)
    assert (shown["log"]["givenUp"], shown["log"]["reports"]) == (0, [])
    assert shown["log"]["upTo"] == shown["log"]["newest"] == box.challenge().next - 1
    agent = f"Keyrack key, {shown['name']}"
    assert len([event for event in carol.get("/events").json() if event["userAgent"].startswith(agent)]) == 3


def approve_as_second(person: Person, box: Firmware) -> None:
    """Approve as another caller than the one that enrolled the box."""
    begun = "update box_epoch set enrolled_by = 'client:0' where customer_id = $1 and product_id = $2 and is_pending"
    person.sql.execute(begun, person.customer, box.product)
    approve(person, box, box.key)


def test_no_enrolment_is_restored_without_an_entry_of_its_box(at_work: Scene, alice: Person, bob: Person) -> None:
    kim, made = at_work.kim, at_work.attack()
    done(alice.delete(path(at_work.box)))
    good = Logbook(at_work.box, made["name"], at_work.laptop).entry()
    wrong = [
        Logbook(at_work.box, made["name"], PrivateKey.generate()).entry(),
        Logbook(at_work.box, made["name"]).entry(),
        Logbook(at_work.box, made["name"], at_work.laptop).entry(**{"root-kid": bytes(8)}),
    ]
    assert deliver(kim, *wrong) == [NO_BOX] * 3
    assert deliver(driver(bob), good) == [NO_BOX], "another customer has no such box"
    assert state(alice, at_work.box) == at_work.first
    count = "select count(*) from box_report where customer_id = $1 and product_id = $2"
    assert alice.sql.value(count, alice.customer, at_work.box.product) == 0
    assert deliver(kim, good) == []
    assert pending(alice, at_work.box)["hasReturned"] is True


def test_an_entry_under_an_earlier_root_restores_nothing(at_work: Scene, alice: Person) -> None:
    kim, made = at_work.kim, at_work.attack()
    done(alice.delete(path(at_work.box)))
    alice.sql.execute("update key_authority set created_at = clock_timestamp() where customer_id = $1", alice.customer)
    try:
        assert deliver(kim, Logbook(at_work.box, made["name"], at_work.laptop).entry()) == [NO_BOX]
    finally:
        alice.sql.execute("update key_authority set created_at = '2020-01-01' where customer_id = $1", alice.customer)


def test_the_same_key_is_enrolled_in_the_same_epoch(at_work: Scene, alice: Person) -> None:
    """A provisioned box accepts only messages for the name of its epoch."""
    kim, box, made = at_work.kim, at_work.box, at_work.attack()
    done(alice.delete(path(box)))
    again = at_work.attack()
    assert (again["epoch"], again["isPending"]) == (made["epoch"], True)
    shown = pending(alice, box)
    assert (shown["hasReturned"], shown["needsApproval"]) == (False, False), "somebody has enrolled it on purpose"
    assert deliver(kim, Logbook(box, made["name"], at_work.laptop).entry()) == []
    assert state(alice, box)["epoch"] == made["epoch"]


def test_an_enrolment_in_force_ends_earlier_discarded_ones(in_use: Scene, alice: Person) -> None:
    kim, entries = in_use.kim, list(in_use.kim.entries)
    other = in_use.attack()
    key = next(each for each in kim.keys(in_use.box) if each != kim.keys(in_use.box)[0])
    assert deliver(kim, Logbook(in_use.box, other["name"], in_use.laptop).entry()) == []
    assert state(alice, in_use.box)["epoch"] == other["epoch"]
    assert deliver(kim, *entries) == [NO_BOX] * len(entries)
    revoked = "select revoked_at is not null from box_key where customer_id = $1 and token = $2"
    assert alice.sql.value(revoked, alice.customer, key) is True


# Approval


def test_one_person_can_approve_a_restored_enrolment(in_use: Scene, alice: Person) -> None:
    """Without the policy, the manager who enrolled the box may do so."""
    kim, box = in_use.kim, in_use.box
    old = kim.keys(box)[0]
    done(alice.delete(path(box)))
    kim.home()
    refused(alice.post(path(box, "enrolment/approval"), approval(PrivateKey.generate())), 409, OTHER_KEY)
    machine = client(alice, Permission.BOXES_READ, Permission.BOXES_WRITE)
    assert machine.person.call("POST", path(box, "enrolment/approval"), approval(box.key)).status_code == 403
    approve(alice, box, box.key)
    shown = state(alice, box)
    assert (shown["name"], shown["pending"]) == (box.challenge().name, None)
    assert is_revoked(alice, old)
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.home()["receipts"]


def test_a_second_person_approves_if_the_policy_requires_it(needs_two: Scene, colleague: Person, carol: Person) -> None:
    box, kim = needs_two.reset(), needs_two.kim
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    approve(colleague, box, box.key)
    done(carol.delete(path(box)))
    kim.home()
    assert pending(carol, box)["isApproved"] is False, "an approval does not outlive the undo"
    refused(carol.post(path(box, "enrolment/approval"), approval(box.key)), 403, SAME_MANAGER)
    approve(colleague, box, box.key)
    assert state(carol, box)["name"] == box.challenge().name


# An enrolment in use


def test_an_enrolment_in_use_is_undone_only_by_its_thumbprint(needs_two: Scene, carol: Person) -> None:
    box = needs_two.reset()
    confirm(carol, box)
    shown = pending(carol, box)
    assert (shown["isProven"], shown["hasReturned"]) == (True, False)
    refused(carol.delete(path(box)), 409, IN_USE)
    refused(carol.delete(path(box, f"enrolment?thumbprint={thumbprint(needs_two.laptop)}")), 409, OTHER_KEY)
    wrong = "The query parameter thumbprint is not valid. The value must have 32 bytes, but has 1."
    refused(carol.delete(path(box, "enrolment?thumbprint=AA")), 400, wrong)
    assert pending(carol, box) == shown
    with captured_events("enrolment of a box in use discarded") as alerts:
        undo(carol, box, box.key)
    assert [(line["product"], line["alert"]) for line in alerts] == [(box.product, True)]
    refused(carol.delete(path(box, f"enrolment?thumbprint={thumbprint(box.key)}")), 409, NOT_PENDING)
    assert state(carol, box)["pending"] is None


def test_an_enrolment_in_use_is_replaced_only_by_its_thumbprint(needs_two: Scene, carol: Person) -> None:
    box = needs_two.reset()
    confirm(carol, box)
    shown, product, key = pending(carol, box), box.product, needs_two.laptop
    refused(enrolled_from_afar(carol, product, key), 409, IN_USE)
    for other in (thumbprint(key), "AA"):
        refused(enrolled_from_afar(carol, product, key, replaces=other), 409, OTHER_KEY)
    assert enrolled_from_afar(carol, product, key, replaces=7).status_code == 400
    assert pending(carol, box) == shown
    assert enrolled_from_afar(carol, product, box.key).json()["epoch"] == shown["epoch"], "the same key again"
    answer = enrolled_from_afar(carol, product, key, replaces=thumbprint(box.key))
    assert (answer.status_code, pending(carol, box)["thumbprint"]) == (200, thumbprint(key))
    undo(carol, box, key)
    refused(enrolled_from_afar(carol, product, key, replaces=thumbprint(key)), 409, NOT_PENDING)


def test_an_enrolment_that_is_not_in_use_may_be_named(at_work: Scene, alice: Person) -> None:
    at_work.attack()
    other = thumbprint(PrivateKey.generate())
    refused(alice.delete(path(at_work.box, f"enrolment?thumbprint={other}")), 409, OTHER_KEY)
    refused(enrolled_from_afar(alice, at_work.box.product, PrivateKey.generate(), replaces=other), 409, OTHER_KEY)
    undo(alice, at_work.box, at_work.laptop)
    assert state(alice, at_work.box) == at_work.first


@pytest.mark.parametrize(("role", "status"), [(Role.TECHNICIAN, 204), (Role.VIEWER, 403), (Role.DISPATCHER, 403)])
def test_which_roles_undo_an_enrolment_in_use(
    needs_two: Scene, carol: Person, town: Town, role: Role, status: int
) -> None:
    box = needs_two.reset()
    confirm(carol, box)
    somebody = town.colleague(carol, f"another {role}", role)
    answer = somebody.delete(path(box, f"enrolment?thumbprint={thumbprint(box.key)}"))
    assert answer.status_code == status


def test_a_box_whose_enrolment_was_undone_needs_no_reset(needs_two: Scene, carol: Person) -> None:
    """The box refuses another enrolment, since it was provisioned. Its own enrolment is restored."""
    box, kim = needs_two.reset(), needs_two.kim
    confirm(carol, box)
    kim.fetch()
    undo(carol, box, box.key)
    box.say(link_messages.write(Enrol(raw(carol.post(path(box)).json()["nonce"]))))
    assert box.code is BoxRefusalCode.NOT_NOW
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    fresh = driver(carol, kim.user)
    assert [each["box"] for each in fresh.fetch()["keys"]][1:] == [box.challenge().name]
    assert fresh.visit(box) is BoxRefusalCode.GOOD, "another phone gets a key, too"


# Two in use


def test_the_pending_one_of_two_enrolments_in_use_stays(in_use: Scene, alice: Person) -> None:
    """The server cannot know which of the two is in the car. A manager can."""
    kim, box, entries = in_use.kim, in_use.box, list(in_use.kim.entries)
    done(alice.delete(path(box)))
    alice.sql.execute("update key_authority set needs_second_person = true where customer_id = $1", alice.customer)
    try:
        other = in_use.attack()
        assert deliver(kim, Logbook(box, other["name"], in_use.laptop).entry()) == []
        with captured_events(CONTESTED, RETURNED) as alerts:
            for _ in range(2):
                assert deliver(kim, *entries) == [OTHER_PENDING] * len(entries)
        assert [(line["event"], line["pending"], line["alert"]) for line in alerts] == [
            (CONTESTED, other["epoch"], True)
        ], "once"
        shown = pending(alice, box)
        assert (shown["thumbprint"], shown["isContested"]) == (thumbprint(in_use.laptop), True)
        undo(alice, box, in_use.laptop)
        shown = pending(alice, box)
        assert (shown["thumbprint"], shown["hasReturned"]) == (thumbprint(box.key), True), "at once"
        assert shown["isContested"] is False
        assert [each["box"] for each in kim.fetch()["keys"]] == [in_use.first["name"], box.challenge().name]
        assert deliver(kim, *entries) == []
        assert deliver(kim, Logbook(box, other["name"], in_use.laptop).entry()) == [OTHER_PENDING]
        undo(alice, box, box.key)
        assert pending(alice, box)["thumbprint"] == thumbprint(in_use.laptop)
        undo(alice, box, in_use.laptop)
        assert state(alice, box)["pending"] is None, "nothing was heard of since"
    finally:
        alice.sql.execute("update key_authority set needs_second_person = false where customer_id = $1", alice.customer)


def test_an_enrolment_that_replaces_one_in_use_takes_precedence(in_use: Scene, alice: Person) -> None:
    """The caller has named the one in use. If that was wrong, an undo restores it."""
    kim, box, entries = in_use.kim, in_use.box, list(in_use.kim.entries)
    done(alice.delete(path(box)))
    assert deliver(kim, *entries) == []
    enrolled = enrolled_from_afar(alice, box.product, in_use.laptop, replaces=thumbprint(box.key))
    assert enrolled.status_code == 200
    with captured_events(CONTESTED) as alerts:
        assert deliver(kim, *entries) == [OTHER_PENDING] * len(entries)
    assert [(line["pending"], line["alert"]) for line in alerts] == [(enrolled.json()["epoch"], True)]
    shown = pending(alice, box)
    assert (shown["thumbprint"], shown["isContested"]) == (thumbprint(in_use.laptop), True)
    done(alice.delete(path(box)))
    assert pending(alice, box)["thumbprint"] == thumbprint(box.key)
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.home()["refused"] == []


def test_a_laptop_displaces_no_later_enrolment_for_good(at_work: Scene, alice: Person) -> None:
    kim, book = at_work.kim, Logbook(at_work.box, at_work.attack()["name"], at_work.laptop)
    done(alice.delete(path(at_work.box)))
    assert deliver(kim, book.entry()) == []
    undo(alice, at_work.box, at_work.laptop)
    box = at_work.reset()
    assert deliver(kim, book.entry()) == [OTHER_PENDING]
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    shown = state(alice, box)
    assert (shown["name"], shown["pending"]) == (box.challenge().name, None)
    assert deliver(kim, book.entry()) == [NO_BOX]


# Displaced by an entry


def test_an_undo_restores_a_displaced_enrolment(at_work: Scene, alice: Person) -> None:
    """A box that was enrolled and provisioned meanwhile refuses another enrolment, so it would need a reset."""
    kim, laptop = at_work.kim, at_work.attack()
    done(alice.delete(path(at_work.box)))
    box = at_work.reset()
    book = Logbook(box, laptop["name"], at_work.laptop)
    assert deliver(kim, book.entry()) == []
    shown = pending(alice, box)
    assert (shown["thumbprint"], shown["isContested"]) == (thumbprint(at_work.laptop), True)
    undo(alice, box, at_work.laptop)
    shown = pending(alice, box)
    assert (shown["thumbprint"], shown["isProven"], shown["needsApproval"]) == (thumbprint(box.key), False, True)
    assert deliver(kim, book.entry()) == [OTHER_PENDING], "it displaces nothing once more"
    approve(alice, box, box.key)
    assert state(alice, box)["epoch"] == at_work.first["epoch"], "no entry has come from it yet"
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.home()["refused"] == []
    shown = state(alice, box)
    assert (shown["name"], shown["pending"]) == (box.challenge().name, None)


def test_a_displaced_laptop_comes_into_force_by_no_entry(in_use: Scene, alice: Person) -> None:
    kim, box, other = in_use.kim, in_use.box, in_use.attack()
    kim.home()
    undo(alice, box, box.key)
    assert pending(alice, box)["thumbprint"] == thumbprint(in_use.laptop)
    assert deliver(kim, Logbook(box, other["name"], in_use.laptop).entry()) == []
    shown = state(alice, box)
    assert (shown["epoch"], shown["pending"]["isApproved"]) == (in_use.first["epoch"], False)


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_displaced_enrolment_is_not_restored_after_a_decision(
    in_use: Scene, alice: Person, is_approved: bool
) -> None:
    """An approval or another enrolment decides against it."""
    kim, box = in_use.kim, in_use.box
    in_use.attack()
    kim.home()
    if is_approved:
        approve(alice, box, box.key)
        assert state(alice, box)["pending"] is None
    key = PrivateKey.generate()
    replaces = {} if is_approved else {"replaces": thumbprint(box.key)}
    assert enrolled_from_afar(alice, box.product, key, **replaces).status_code == 200
    assert pending(alice, box)["isContested"] is False
    done(alice.delete(path(box)))
    assert state(alice, box)["pending"] is None


def test_the_first_entry_of_a_displaced_enrolment_causes_an_alert(in_use: Scene, alice: Person) -> None:
    kim, box, other = in_use.kim, in_use.box, in_use.attack()
    kim.home()
    entry = Logbook(box, other["name"], in_use.laptop).entry()
    with captured_events(CONTESTED) as alerts:
        for _ in range(2):
            assert deliver(kim, entry) == [OTHER_PENDING]
    assert len([line for line in alerts if line["product"] == box.product]) == 1
    undo(alice, box, box.key)
    shown = pending(alice, box)
    assert (shown["thumbprint"], shown["isProven"]) == (thumbprint(in_use.laptop), True)


def test_entries_of_two_enrolments_in_one_delivery(in_use: Scene, alice: Person) -> None:
    """The first one displaces the other. The entry of that one is refused with a reason, and counts."""
    kim, box, other = in_use.kim, in_use.box, in_use.attack()
    entries = [*kim.entries, Logbook(box, other["name"], in_use.laptop).entry()]
    with captured_events(CONTESTED) as alerts:
        assert deliver(kim, *entries) == [OTHER_PENDING]
    assert [line["epoch"] for line in alerts if line["product"] == box.product] == [other["epoch"]]
    assert pending(alice, box)["thumbprint"] == thumbprint(box.key)


# Limits


def test_the_number_of_discarded_enrolments_is_limited(
    at_work: Scene, alice: Person, dsn: str, settings: Settings
) -> None:
    """A flood of enrolments without a box removes none in use."""
    low = settings.model_copy(update={"max_discarded_enrolments": 2})
    box, kim, used = at_work.box, at_work.kim, PrivateKey.generate()
    with RunningServer(low, dsn, worker=False) as small:
        person = replace(alice, client=alice.client.__class__(base_url=small.url + "/v3", timeout=60))
        book = Logbook(box, enrolled_from_afar(person, box.product, used).json()["name"], used)
        done(person.delete(path(box)))
        assert deliver(kim, book.entry()) == []
        undo(person, box, used)
        keys = [PrivateKey.generate() for _ in range(4)]
        with captured_events("discarded enrolments deleted") as alerts:
            names = [enrolled_from_afar(person, box.product, key).json()["name"] for key in keys]
            done(person.delete(path(box)))
    deleted = [epoch for line in alerts if line["product"] == box.product for epoch in line["epochs"]]
    assert [f"box:{box.product}:{epoch}" for epoch in deleted] == names[:2]
    count = "select count(*) from box_epoch where customer_id = $1 and product_id = $2 and discarded_at is not null"
    assert alice.sql.value(count, alice.customer, box.product) == 3
    assert deliver(kim, Logbook(box, names[0], keys[0]).entry()) == [NO_BOX]
    assert alice.sql.rows(DEAD_EPOCHS, alice.customer) == []
    assert deliver(kim, Logbook(box, names[2], keys[2]).entry()) == []
    assert pending(alice, box)["name"] == names[2]
    undo(alice, box, keys[2])
    assert deliver(kim, book.entry()) == []
    assert pending(alice, box)["name"] == book.name


# Concurrency


def test_concurrent_entries_undos_and_enrolments(carol: Person, sql: Sql) -> None:
    """At most one enrolment is pending, and no entry is lost without a reason."""
    made = scene(carol)
    box, kim, keys = made.box, made.kim, [PrivateKey.generate() for _ in range(3)]
    sql.execute("update key_authority set needs_second_person = true where customer_id = $1", carol.customer)
    books = [Logbook(box, enrolled_from_afar(carol, box.product, key).json()["name"], key) for key in keys]
    phones = [kim, *(driver(carol, kim.user) for _ in range(2))]

    def bring(place: int) -> set[int]:
        body = {"entries": [b64(books[place].entry())]}
        return {phones[place].call("PUT", "/sdk/boxlog", body).status_code for _ in range(6)}

    def change(place: int) -> set[int]:
        statuses = set[int]()
        for _ in range(4):
            named = thumbprint(keys[place])
            statuses.add(carol.delete(path(box, f"enrolment?thumbprint={named}")).status_code)
            statuses.add(enrolled_from_afar(carol, box.product, PrivateKey.generate()).status_code)
        return statuses

    with ThreadPoolExecutor(6) as pool:
        brought, changed = pool.map(bring, range(3)), pool.map(change, range(3))
        assert set[int]().union(*brought) == {200}
        assert set[int]().union(*changed) <= {200, 204, 409}
    assert sql.value(PENDING_ROWS, carol.customer, box.product) <= 1
    assert state(carol, box)["epoch"] == made.first["epoch"]
    assert sql.rows(DEAD_EPOCHS, carol.customer) == []


def test_concurrent_approvals_fetches_and_enrolments(carol: Person, sql: Sql) -> None:
    """No request fails, and no restored enrolment is in force without an approval."""
    made = scene(carol)
    box, kim, keys = made.box, made.kim, [PrivateKey.generate() for _ in range(3)]
    sql.execute("update key_authority set needs_second_person = false where customer_id = $1", carol.customer)
    books = [Logbook(box, enrolled_from_afar(carol, box.product, key).json()["name"], key) for key in keys]
    done(carol.delete(path(box)))
    phones = [driver(carol, kim.user) for _ in range(2)]

    def bring(place: int) -> set[int]:
        entries = [b64(book.entry()) for book in books]
        phone, statuses = phones[place], set[int]()
        for _ in range(5):
            statuses.add(phone.call("PUT", "/sdk/boxlog", {"entries": entries}).status_code)
            statuses.add(phone.call("GET", "/sdk/keys", params={"device": phone.id}).status_code)
        return statuses

    def decide(place: int) -> set[int]:
        statuses, named = set[int](), thumbprint(keys[place])
        for _ in range(4):
            statuses.add(carol.delete(path(box, f"enrolment?thumbprint={named}")).status_code)
            statuses.add(enrolled_from_afar(carol, box.product, keys[place], replaces=named).status_code)
            statuses.add(carol.post(path(box, "enrolment/approval"), approval(keys[place])).status_code)
        return statuses

    with ThreadPoolExecutor(5) as pool:
        brought, decided = pool.map(bring, range(2)), pool.map(decide, range(3))
        assert set[int]().union(*brought) == {200}
        assert set[int]().union(*decided) <= {200, 204, 403, 409}
    assert sql.value(PENDING_ROWS, carol.customer, box.product) <= 1
    assert sql.rows(DEAD_EPOCHS, carol.customer) == []
    in_force = "select count(*) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending"
    unapproved = f"{in_force} and (discarded_at is not null or returned_at is not null and approved_at is null)"
    assert sql.value(unapproved, carol.customer, box.product) == 0


def test_many_phones_upload_one_entry_at_once(at_work: Scene, alice: Person) -> None:
    made, kim = at_work.attack(), at_work.kim
    done(alice.delete(path(at_work.box)))
    body = {"entries": [b64(Logbook(at_work.box, made["name"], at_work.laptop).entry())]}
    with captured_events(RETURNED) as alerts, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: kim.call("PUT", "/sdk/boxlog", body).json()["refused"], range(6)))
    assert answers == [[]] * 6
    assert len([line for line in alerts if line["product"] == at_work.box.product]) == 1
    assert pending(alice, at_work.box)["hasReturned"] is True


def test_the_previous_release_puts_no_discarded_enrolment_into_force(at_work: Scene, alice: Person) -> None:
    """The previous release knows no discarded epochs, and may run at the same time during an upgrade."""
    made = at_work.attack()
    done(alice.delete(path(at_work.box)))
    confirming = "update box_epoch set is_pending = false where customer_id = $1 and product_id = $2 and epoch = $3"
    with pytest.raises(asyncpg.CheckViolationError):
        alice.sql.execute(confirming, alice.customer, at_work.box.product, made["epoch"])
    assert state(alice, at_work.box) == at_work.first


def test_the_previous_release_confirms_nothing_that_needs_an_approval(at_work: Scene, alice: Person) -> None:
    """Without the policy the previous release needs an entry alone. A laptop could send it to an older process."""
    made = at_work.attack()
    done(alice.delete(path(at_work.box)))
    assert deliver(at_work.kim, Logbook(at_work.box, made["name"], at_work.laptop).entry()) == []
    confirming = """
        update box_epoch e set is_pending = false from key_authority t
        where e.customer_id = $1 and e.product_id = $2 and e.epoch = $3 and e.is_pending and e.proven_at is not null
          and t.customer_id = e.customer_id and (e.approved_at is not null or not t.needs_second_person)
    """
    with pytest.raises(asyncpg.CheckViolationError):
        alice.sql.execute(confirming, alice.customer, at_work.box.product, made["epoch"])
    assert state(alice, at_work.box)["epoch"] == at_work.first["epoch"]
    approve(alice, at_work.box, at_work.laptop)
    assert state(alice, at_work.box)["epoch"] == made["epoch"]


def test_a_discarded_enrolment_before_the_one_in_force_has_ended(at_work: Scene, alice: Person) -> None:
    """The previous release keeps discarded enrolments when it puts a later one into force."""
    kim, box, made = at_work.kim, at_work.box, at_work.attack()
    done(alice.delete(path(box)))
    later = enrolled_from_afar(alice, box.product, PrivateKey.generate()).json()
    confirming = "update box_epoch set is_pending = false where customer_id = $1 and product_id = $2 and epoch = $3"
    alice.sql.execute(confirming, alice.customer, box.product, later["epoch"])
    refused(enrolled_from_afar(alice, box.product, at_work.laptop), 409, USED_KEY)
    assert deliver(kim, Logbook(box, made["name"], at_work.laptop).entry()) == [NO_BOX]
    shown = state(alice, box)
    assert (shown["epoch"], shown["pending"]) == (later["epoch"], None)


# Change log


def test_a_deleted_box_loses_its_discarded_enrolments(carol: Person, operator: Operator) -> None:
    made = scene(carol)
    laptop = made.attack()
    done(carol.delete(path(made.box)))
    assert deliver(made.kim, Logbook(made.box, laptop["name"], made.laptop).entry()) == []
    assert (
        enrolled_from_afar(carol, made.box.product, PrivateKey.generate(), replaces=thumbprint(made.laptop)).status_code
        == 200
    )
    carol.sql.execute(
        "delete from product where customer_id = $1 and product_id = $2", carol.customer, made.box.product
    )
    assert operator.value("audit", "verify", "--customer", carol.customer, "--tables")["valid"] is True


def test_the_change_log_records_a_restored_enrolment(carol: Person, operator: Operator) -> None:
    made = scene(carol)
    laptop = made.attack()
    done(carol.delete(path(made.box)))
    assert deliver(made.kim, Logbook(made.box, laptop["name"], made.laptop).entry()) == []
    approve(carol, made.box, made.laptop)
    query = "/changes?$filter=resource eq 'enrolment'&$orderby=id"

    def recorded() -> list[dict[str, Any]] | None:
        changes = [each for each in carol.get(query).json() if each["resourceId"].startswith(f"{made.box.product}.")]
        return changes if len(changes) == 6 else None

    changes = eventually(recorded, "the changes")
    assert [change["kind"] for change in changes] == [
        "enrolment.created", "enrolment.created", "enrolment.deleted", "enrolment.created", "enrolment.updated",
        "enrolment.confirmed",
    ]  # fmt: skip
    assert changes[2]["before"] == changes[1]["after"] and changes[2]["after"] is None
    assert changes[3]["after"] == changes[1]["after"] | {"hasReturned": True}
    assert changes[4]["after"] == {"isApproved": True}
    assert (changes[3]["actor"]["type"], changes[5]["actor"]["type"]) == ("user", "manager")
    undone = scene(carol)
    undone.attack()
    done(carol.delete(path(undone.box)))
    assert operator.value("audit", "verify", "--customer", carol.customer, "--tables")["valid"] is True
