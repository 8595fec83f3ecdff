"""Pending enrolments: the box in use works until they are proven."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from keyrack.api.permissions import Permission, Role
from keyrack.api.principals import FOR_PEOPLE
from keyrack.core.settings import Settings
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.link_messages import AcceptedMessage, Provision
from keyrack.offline_keys.message_fields import ENROLMENT
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth import group_scope
from tests.auth.group_scope import limited
from tests.auth.test_access_matrix import client
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Logbook, is_revoked
from tests.offline_keys.offline_world import Firmware, Phone, b64, confirm, driver, garage, raw
from tests.support.log_lines import captured_events
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer, Sql, eventually

NO_PRODUCT = "Unable to find a product for the given productId which is assigned to the given customerId."
NOT_ENROLLED = "The box is not enrolled."
NOT_PENDING = "The box has no pending enrolment."
OTHER_KEY = "The thumbprint of the box's key differs from the expected one."
SAME_MANAGER = "The manager who began the enrolment cannot approve it."
# Keys that may open, of an epoch that has ended or was deleted
DEAD_EPOCHS = """
select k.key_id from box_key k left join box_epoch e using (customer_id, product_id, epoch)
where k.customer_id = $1 and k.is_placed and k.revoked_at is null and (e.epoch >= (
  select max(epoch) from box_epoch f where f.customer_id = k.customer_id and f.product_id = k.product_id
  and not f.is_pending)) is not true
"""


def path(box: Firmware, part: str = "enrolment") -> str:
    return f"/boxes/{box.product}/{part}"


def enrolled_from_afar(person: Person, product: int, key: PrivateKey, **members: Any) -> httpx.Response:
    """Enrol a key without a box, as an attacker with a laptop does."""
    nonce = raw(person.post(f"/boxes/{product}/enrolment").json()["nonce"])
    data = cose.sign(ENROLMENT, key.public.kid, {"cnf": key.public, "nonce": nonce}, key.sign)
    return person.put(f"/boxes/{product}/enrolment", {"enrolment": b64(data), **members})


def state(person: Person, box: Firmware) -> dict[str, Any]:
    answer = person.get(path(box))
    assert answer.status_code == 200, answer.text
    return answer.json()


@dataclass
class Scene:
    """A box in use, its phone, and another key on a laptop."""

    person: Person
    kim: Phone
    box: Firmware
    first: dict[str, Any]  # the state before
    laptop: PrivateKey = field(default_factory=PrivateKey.generate)

    def attack(self) -> dict[str, Any]:
        answer = enrolled_from_afar(self.person, self.box.product, self.laptop)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def reset(self) -> Firmware:
        """Reset the box, and enrol it."""
        self.box.key = PrivateKey.generate()
        self.box.reset()
        self.box.enrol(self.person)
        return self.box


def scene(person: Person) -> Scene:
    car, box = garage(person)
    kim = driver(person)
    person.assignment(car, kim.user)
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    return Scene(person, kim, box, state(person, box))


@pytest.fixture
def at_work(alice: Person) -> Scene:
    return scene(alice)


@pytest.fixture
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def needs_two(carol: Person, operator: Operator) -> Scene:
    """The same for a customer that requires a second person."""
    made = scene(carol)
    operator.value("keys", "policy", "--customer", carol.customer, "--second-person", "on")
    return made


@pytest.fixture
def colleague(town: Town, needs_two: Scene) -> Person:
    return town.colleague(needs_two.person, "a second technician", Role.TECHNICIAN)


def test_a_box_in_use_keeps_working(at_work: Scene, alice: Person) -> None:
    kim, box = at_work.kim, at_work.box
    before = kim.keys(box)
    pending = at_work.attack()
    assert pending["isPending"] is True and pending["epoch"] > at_work.first["epoch"]
    shown = state(alice, box)
    assert {**shown, "pending": None} == at_work.first
    assert shown["pending"] | {"enrolled": ""} == {
        "epoch": pending["epoch"], "name": pending["name"], "thumbprint": b64(at_work.laptop.public.thumbprint),
        "enrolled": "", "isProven": False, "needsApproval": False, "isApproved": False, "hasReturned": False,
        "isContested": False,
    }  # fmt: skip
    assert kim.visit(box) is BoxRefusalCode.GOOD, "with what it has"
    assert kim.home()["receipts"][0]["box"] == at_work.first["name"]
    held = kim.fetch()
    assert [key["box"] for key in held["keys"]] == [at_work.first["name"], pending["name"]]
    assert raw(held["keys"][0]["key"]) == before[0]
    assert [each["box"] for each in held["boxes"]] == [at_work.first["name"], pending["name"]]
    assert kim.visit(box) is BoxRefusalCode.GOOD
    answer = kim.call("POST", "/sdk/time", {"box": at_work.first["name"], "nonce": b64(box.challenge().nonce)})
    assert box.carry(raw(answer.json()["time"])) == 0


def test_a_revocation_reaches_a_box_in_use(at_work: Scene, alice: Person) -> None:
    at_work.attack()
    lee = driver(alice)
    car = alice.get(f"/users/{at_work.kim.user}/assignments").json()[0]["carId"]
    alice.assignment(car, lee.user)
    lee.fetch()
    key = at_work.kim.keys(at_work.box)[0]
    done(alice.delete(f"/users/{at_work.kim.user}/devices/{at_work.kim.id}"))
    lee.fetch()
    lee.bring(at_work.box)
    assert at_work.kim.open(at_work.box, key=key) is BoxRefusalCode.REVOKED
    assert lee.open(at_work.box) is BoxRefusalCode.GOOD


def test_a_pending_enrolment_is_undone(at_work: Scene, alice: Person) -> None:
    kim, box = at_work.kim, at_work.box
    pending = at_work.attack()
    old, new = (raw(key["key"]) for key in kim.fetch()["keys"])
    done(alice.delete(path(box)))
    refused(alice.delete(path(box)), 409, NOT_PENDING)
    assert state(alice, box) == at_work.first
    assert [raw(key["key"]) for key in kim.fetch()["keys"]] == [old]
    revoked = "select revoked_at is not null from box_key where customer_id = $1 and token = $2"
    assert [alice.sql.value(revoked, alice.customer, key) for key in (old, new)] == [False, False], (
        "a box that the undo is a mistake about opens for phones without a network"
    )
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    assert state(alice, box)["epoch"] == at_work.first["epoch"]
    again = enrolled_from_afar(alice, box.product, PrivateKey.generate()).json()
    assert again["isPending"] is True and again["epoch"] > pending["epoch"], "the number does not come again"


def test_an_entry_under_another_root_confirms_nothing(at_work: Scene, alice: Person) -> None:
    """An attacker near the box has provisioned it first, under another root."""
    kim, pending = at_work.kim, at_work.attack()
    book = Logbook(at_work.box, pending["name"], at_work.laptop)
    kim.entries = [book.entry(**{"root-kid": bytes(8)})]
    assert kim.home()["refused"] == []
    assert state(alice, at_work.box)["pending"]["isProven"] is False
    kinds = "select fault from box_report where customer_id = $1 and product_id = $2 and epoch = $3"
    assert alice.sql.rows(kinds, alice.customer, at_work.box.product, pending["epoch"]) == [("UnknownList",)]
    kim.entries = [book.entry()]
    kim.home()
    assert state(alice, at_work.box)["epoch"] == pending["epoch"]


def test_a_root_that_was_replaced_before_confirms_nothing(at_work: Scene, alice: Person, operator: Operator) -> None:
    """A thief of the former root has provisioned the reset box first.

    A box that was enrolled before is a different case.
    """
    kim, box = at_work.kim, at_work.box
    operator.value("keys", "root", "replace", "--customer", alice.customer, "--yes")
    pending = at_work.attack()
    book = Logbook(box, pending["name"], at_work.laptop)
    assert book.root == box.challenge().root, "the former root, which a box at work may still obey"
    kim.entries = [book.entry()]
    kim.home()
    assert state(alice, box)["pending"]["isProven"] is False
    faults = "select fault from box_report where customer_id = $1 and product_id = $2 and epoch = $3"
    assert alice.sql.rows(faults, alice.customer, box.product, pending["epoch"]) == [("UnknownList",)]
    assert kim.open(box) is BoxRefusalCode.GOOD
    kim.home()
    assert alice.sql.rows(faults, alice.customer, box.product, at_work.first["epoch"]) == []
    kim.fetch()
    kim.bring(box)
    kim.entries = [book.entry(**{"root-kid": box.challenge().root})]
    kim.home()
    assert state(alice, box)["epoch"] == pending["epoch"]


def test_a_box_that_was_reset_comes_into_force(at_work: Scene, alice: Person) -> None:
    """The first phone that comes to it already has a key for it."""
    kim = at_work.kim
    old = kim.keys(at_work.box)[0]
    box = at_work.reset()
    assert kim.open(box, key=old) is BoxRefusalCode.AUDIENCE
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert not is_revoked(alice, old)
    assert state(alice, box)["epoch"] == at_work.first["epoch"]
    receipts = kim.home()["receipts"]
    name = box.challenge().name
    assert [one["box"] for one in receipts] == [name]
    shown = state(alice, box)
    assert (shown["name"], shown["pending"], shown["thumbprint"]) == (name, None, b64(box.key.public.thumbprint))
    assert is_revoked(alice, old)
    assert [key["box"] for key in kim.fetch()["keys"]] == [name]
    assert alice.get(path(box, "status")).json()["epoch"] == shown["epoch"]
    opened = [event["type"] for event in alice.get("/events?$orderby=id desc&$top=2").json()]
    assert "CarOpened" in opened
    refused(alice.delete(path(box)), 409, NOT_PENDING)


def test_the_first_enrolment_is_in_force_at_once(alice: Person) -> None:
    box = Firmware(alice.box_in(alice.car()))
    answer = enrolled_from_afar(alice, box.product, box.key).json()
    assert answer["isPending"] is False
    assert state(alice, box)["pending"] is None
    refused(alice.delete(path(box)), 409, NOT_PENDING)
    assert state(alice, box)["epoch"] == answer["epoch"]


def test_a_further_enrolment_replaces_a_pending_one(at_work: Scene, alice: Person) -> None:
    first = at_work.attack()
    second = enrolled_from_afar(alice, at_work.box.product, PrivateKey.generate()).json()
    assert state(alice, at_work.box)["pending"]["epoch"] == second["epoch"] > first["epoch"]
    assert [key["box"] for key in at_work.kim.fetch()["keys"]] == [at_work.first["name"], second["name"]]


def test_an_entry_of_another_key_confirms_nothing(at_work: Scene, alice: Person) -> None:
    pending = at_work.attack()
    for key in (at_work.box.key, PrivateKey.generate()):
        at_work.kim.entries = [Logbook(at_work.box, pending["name"], key).entry()]
        assert len(at_work.kim.home()["refused"]) == 1
    at_work.kim.entries = [Logbook(at_work.box, at_work.first["name"]).entry(9)]
    at_work.kim.home()
    assert state(alice, at_work.box)["pending"]["isProven"] is False


def test_provisioning_is_for_the_key_that_asks(at_work: Scene, alice: Person) -> None:
    """A tool names the thumbprint, so the box in use still gets its time."""
    box = at_work.box
    thumbprint = b64(box.key.public.thumbprint)
    at_work.attack()

    def provision(query: str) -> int:
        nonce = b64(box.challenge().nonce)
        told = alice.get(path(box, f"provisioning?nonce={nonce}{query}")).json()
        messages = [raw(told[name]) for name in ("provisioning", "keySet", "statusList")]
        return link_messages.read(box.say(link_messages.write(Provision(*messages))), AcceptedMessage).refused

    assert provision("") == 1
    assert box.code is BoxRefusalCode.BOX
    assert provision(f"&thumbprint={thumbprint}") == 0
    assert provision(f"&thumbprint={b64(at_work.laptop.public.thumbprint)}") == 1
    nonce = b64(bytes(16))
    refused(alice.get(path(box, f"provisioning?nonce={nonce}&thumbprint={b64(bytes(32))}")), 404, NOT_ENROLLED)
    wrong = "The query parameter thumbprint is not valid. The value must have 32 bytes, but has 1."
    refused(alice.get(path(box, f"provisioning?nonce={nonce}&thumbprint=AA")), 400, wrong)


def test_an_unexpected_thumbprint_is_refused(at_work: Scene, alice: Person) -> None:
    key, product = PrivateKey.generate(), at_work.box.product
    nonce = raw(alice.post(path(at_work.box)).json()["nonce"])
    body = {"enrolment": b64(cose.sign(ENROLMENT, key.public.kid, {"cnf": key.public, "nonce": nonce}, key.sign))}
    other = {"thumbprint": b64(at_work.box.key.public.thumbprint)}
    refused(alice.put(path(at_work.box), body | other), 409, OTHER_KEY)
    refused(alice.put(path(at_work.box), body | {"thumbprint": b64(bytes(31))}), 409, OTHER_KEY)
    answer = alice.put(path(at_work.box), body | {"thumprint": b64(key.public.thumbprint)})
    assert answer.status_code == 400, "a misspelt comparison compares nothing"
    assert state(alice, at_work.box) == at_work.first
    answer = alice.put(path(at_work.box), body | {"thumbprint": b64(key.public.thumbprint)})
    assert (answer.status_code, answer.json()["isPending"]) == (200, True), "the nonce is still good"
    refused(enrolled_from_afar(alice, product, key, **other), 409, OTHER_KEY)


def test_a_lost_key_authority_leaves_nothing_to_wait_for(carol: Person) -> None:
    made = scene(carol)
    carol.sql.execute("update box_epoch set enrolled_at = '2020-01-01' where customer_id = $1", carol.customer)
    carol.sql.execute("update key_authority set created_at = '2021-01-01' where customer_id = $1", carol.customer)
    assert enrolled_from_afar(carol, made.box.product, made.laptop).json()["isPending"] is False


# A second person


def approval(key: PrivateKey) -> dict[str, str]:
    return {"thumbprint": b64(key.public.thumbprint)}


def test_a_second_person_must_approve(needs_two: Scene, colleague: Person, carol: Person) -> None:
    box = needs_two.reset()
    old = needs_two.kim.keys(box)[0]
    confirm(carol, box)
    shown = state(carol, box)["pending"]
    assert (shown["isProven"], shown["needsApproval"], shown["isApproved"]) == (True, True, False)
    refused(carol.post(path(box, "enrolment/approval"), approval(box.key)), 403, SAME_MANAGER)
    refused(colleague.post(path(box, "enrolment/approval"), approval(PrivateKey.generate())), 409, OTHER_KEY)
    assert not is_revoked(carol, old)
    needs_two.kim.fetch()
    assert needs_two.kim.visit(box) is BoxRefusalCode.GOOD, "the box that was reset opens meanwhile"
    assert needs_two.kim.home()["receipts"], "and gets receipts"
    done(colleague.post(path(box, "enrolment/approval"), approval(box.key)))
    assert state(carol, box)["pending"] is None
    assert is_revoked(carol, old)
    refused(colleague.post(path(box, "enrolment/approval"), approval(box.key)), 409, NOT_PENDING)


def test_an_approval_alone_confirms_nothing(needs_two: Scene, colleague: Person, carol: Person) -> None:
    needs_two.attack()
    done(colleague.post(path(needs_two.box, "enrolment/approval"), approval(needs_two.laptop)))
    shown = state(carol, needs_two.box)["pending"]
    assert (shown["isProven"], shown["isApproved"]) == (False, True)
    done(carol.delete(path(needs_two.box)))
    box = needs_two.reset()
    assert state(carol, box)["pending"]["isApproved"] is False, "an approval is for one key"
    done(colleague.post(path(box, "enrolment/approval"), approval(box.key)))
    confirm(carol, box)
    assert state(carol, box)["pending"] is None


def test_openings_of_a_pending_enrolment_are_marked(needs_two: Scene, colleague: Person, carol: Person) -> None:
    """The holder of the new key may have no box, and can name any driver."""
    kim, box, pending = needs_two.kim, needs_two.box, needs_two.attack()
    victim = next(raw(key["key"]) for key in kim.fetch()["keys"] if key["box"] == pending["name"])
    book = Logbook(box, pending["name"], needs_two.laptop)

    def brought(entry: bytes) -> tuple[int, str]:
        """User and agent of the newest event."""
        kim.entries = [entry]
        kim.home()
        event = carol.get("/events?$orderby=id desc&$top=1").json()[0]
        return event["userId"], event["userAgent"]

    agent = f"Keyrack key, {pending['name']}"
    assert brought(book.opening(victim)) == (kim.user, f"{agent}, enrolment pending")
    assert brought(book.opening(victim, certain=0)) == (kim.user, f"{agent}, clock uncertain, enrolment pending")
    done(colleague.post(path(box, "enrolment/approval"), approval(needs_two.laptop)))
    assert brought(book.opening(victim)) == (kim.user, agent)


def test_a_machine_client_approves_nothing(needs_two: Scene, town: Town) -> None:
    needs_two.attack()
    machine = client(needs_two.person, Permission.BOXES_READ, Permission.BOXES_WRITE)
    answer = machine.person.call("POST", path(needs_two.box, "enrolment/approval"), approval(needs_two.laptop))
    assert (answer.status_code, answer.json()["code"]) == (403, FOR_PEOPLE.code)


def test_without_the_policy_an_entry_is_enough(needs_two: Scene, carol: Person, operator: Operator) -> None:
    box = needs_two.reset()
    said = operator.value("keys", "policy", "--customer", carol.customer, "--second-person", "off")
    assert said["secondPerson"] == "off"
    confirm(carol, box)
    assert state(carol, box)["pending"] is None


# Permissions


@pytest.mark.parametrize(("role", "status"), [(Role.TECHNICIAN, 204), (Role.VIEWER, 403), (Role.DISPATCHER, 403)])
def test_which_roles_undo_and_approve(at_work: Scene, town: Town, role: Role, status: int) -> None:
    at_work.attack()
    somebody = town.colleague(at_work.person, f"another {role}", role)
    answer = somebody.post(path(at_work.box, "enrolment/approval"), approval(at_work.laptop))
    assert answer.status_code == status
    assert somebody.delete(path(at_work.box)).status_code == status


def test_neighbours_and_other_groups_find_nothing(at_work: Scene, alice: Person, bob: Person, town: Town) -> None:
    at_work.attack()
    nowhere = Firmware(2_147_483_647)
    calls: list[tuple[str, str, Any]] = [
        ("DELETE", "enrolment", None), ("POST", "enrolment/approval", approval(at_work.laptop)),
    ]  # fmt: skip
    for method, part, body in calls:
        there, nothing = (bob.call(method, path(box, part), body) for box in (at_work.box, nowhere))
        refused(there, 404, NO_PRODUCT)
        assert there.text == nothing.text
    group, other = alice.group(), alice.group()
    group_scope.put(alice, group, "productId", at_work.box.product)
    inside, outside = (limited(town, alice, name, [one]) for name, one in (("ina", group), ("ole", other)))
    for method, part, body in calls:
        refused(outside.call(method, path(at_work.box, part), body), 404, NO_PRODUCT)
    done(inside.delete(path(at_work.box)))
    assert state(alice, at_work.box) == at_work.first


# Limits


def test_enrolments_per_hour_are_limited(carol: Person, town: Town, dsn: str, settings: Settings) -> None:
    colleague = town.colleague(carol, "another technician", Role.TECHNICIAN)
    limits = {"enrolments_per_hour_per_customer": 3, "enrolments_per_hour_per_caller": 2}
    with RunningServer(settings.model_copy(update=limits), dsn, worker=False) as small:
        hers, theirs = (
            replace(person, client=person.client.__class__(base_url=small.url + "/v3", timeout=60))
            for person in (carol, colleague)
        )
        products = [carol.product() for _ in range(4)]
        key = PrivateKey.generate()

        def enrolled(person: Person, product: int) -> int:
            return enrolled_from_afar(person, product, key).status_code

        assert [enrolled(hers, product) for product in products[:3]] == [200, 200, 429]
        assert enrolled(hers, products[0]) == 200, "the same key again is the same epoch again"
        assert [enrolled(theirs, product) for product in products[2:]] == [200, 429]
        answer = enrolled_from_afar(theirs, products[3], key)
        assert int(answer.headers["Retry-After"]) > 60
        assert theirs.get(f"/boxes/{products[3]}/enrolment").status_code == 404


def test_keys_of_each_epoch_are_counted_separately(at_work: Scene, alice: Person, dsn: str, settings: Settings) -> None:
    """Enrolments that are begun and undone take no keys from an assignment."""
    low = settings.model_copy(update={"keys_per_assignment": 4})
    with RunningServer(low, dsn, worker=False) as small:
        kim = replace(
            at_work.kim, person=replace(alice, client=alice.client.__class__(base_url=small.url + "/v3", timeout=60))
        )
        kim.sign_in()
        for _ in range(6):
            done_keys = kim.fetch()
            assert (len(done_keys["keys"]), done_keys["withheld"]) == (1, [])
            enrolled_from_afar(alice, at_work.box.product, PrivateKey.generate())
            both = kim.fetch()
            assert (len(both["keys"]), both["withheld"]) == (2, [])
            done(alice.delete(path(at_work.box)))


# Concurrency


def test_no_key_of_an_ended_epoch_opens_after_concurrent_fetches(carol: Person, sql: Sql) -> None:
    """No key of an epoch that has ended may open."""
    made = scene(carol)
    phones = [made.kim, *(driver(carol, made.kim.user) for _ in range(3))]

    def fetch(seed: int) -> list[int]:
        phone = phones[seed % len(phones)]
        return [phone.call("GET", "/sdk/keys", params={"device": phone.id}).status_code for _ in range(6)]

    def change(seed: int) -> list[int]:
        chance, key, statuses = random.Random(seed), PrivateKey.generate(), list[int]()
        for _ in range(3):
            enrolled = enrolled_from_afar(carol, made.box.product, key)  # or another request has got a newer nonce
            if enrolled.status_code == 200 and chance.random() < 0.6:
                body = {"entries": [b64(Logbook(made.box, enrolled.json()["name"], key).entry())]}
                statuses.append(made.kim.call("PUT", "/sdk/boxlog", body).status_code)
            else:
                statuses.append(carol.delete(path(made.box)).status_code)
            key = PrivateKey.generate()
        return statuses

    with ThreadPoolExecutor(8) as pool:
        fetches, changes = list(pool.map(fetch, range(5))), list(pool.map(change, range(3)))
    assert {status for statuses in fetches for status in statuses} == {200}
    assert {status for statuses in changes for status in statuses} <= {200, 204, 409}
    assert sql.rows(DEAD_EPOCHS, carol.customer) == []


def test_a_tool_provisions_during_concurrent_enrolments(carol: Person) -> None:
    """Each provisioning is for an epoch that exists."""
    made = scene(carol)

    def provision(_: int) -> set[int]:
        query = f"provisioning?nonce={b64(bytes(16))}"
        return {carol.get(path(made.box, query)).status_code for _ in range(25)}

    def change(_: int) -> set[int]:
        statuses = set[int]()
        for _ in range(8):
            statuses |= {enrolled_from_afar(carol, made.box.product, PrivateKey.generate()).status_code}
            statuses |= {carol.delete(path(made.box)).status_code}
        return statuses

    with ThreadPoolExecutor(6) as pool:
        provisions, changes = pool.map(provision, range(4)), pool.map(change, range(2))
        assert set[int]().union(*provisions) == {200}
        assert set[int]().union(*changes) <= {200, 204, 409}


# Change log and alerts


def test_a_pending_enrolment_is_recorded_with_an_alert(carol: Person) -> None:
    with captured_events("box in use enrolled again") as alerts:
        made = scene(carol)
        made.attack()
        done(carol.delete(path(made.box)))
        confirm(carol, made.reset())
    alerts = [line for line in alerts if line["product"] == made.box.product]
    assert [line["alert"] for line in alerts] == [True, True]
    query = "/changes?$filter=resource eq 'enrolment'&$orderby=id"

    def recorded() -> list[dict[str, Any]] | None:
        changes: list[dict[str, Any]] = carol.get(query).json()
        return changes if len(changes) == 5 else None

    changes = eventually(recorded, "the changes")
    assert [change["kind"] for change in changes] == [
        "enrolment.created", "enrolment.created", "enrolment.deleted", "enrolment.created", "enrolment.confirmed",
    ]  # fmt: skip
    assert [(change["after"] or {}).get("isPending") for change in changes] == [None, True, None, True, None]
    assert (changes[1]["actor"]["type"], changes[4]["actor"]["type"]) == ("manager", "user")
