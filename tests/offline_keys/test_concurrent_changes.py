"""Keys are fetched while their conditions change.

In the end no key gives more than the tables do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.assignments.customer_lock import BUSY
from keyrack.core import secret_hashes
from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import KEY
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.phone import registration
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Logbook, text
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.people import Person, Town
from tests.support.servers import Sql, eventually

# Keys that may open and give more than assignment, box, service, phone, epoch and authority do
TOO_MUCH = """
select k.key_id, k.assignment_id, k.revoked_at from box_key k
left join assignment a using (customer_id, assignment_id)
left join product p using (customer_id, product_id)
left join service v on v.customer_id = k.customer_id and v.product_id = k.product_id
left join app_device d on d.customer_id = k.customer_id and d.device_id = k.device_id
left join app_subject s on s.customer_id = k.customer_id and s.user_id = k.user_id
left join issuing_key i on i.customer_id = k.customer_id and i.issuing_key_id = k.issuing_key_id
where k.customer_id = $1 and k.is_placed and k.revoked_at is null and (
  a.car_id = k.car_id and a.user_id = k.user_id and a.starts_at <= k.begins_at and k.begins_at >= k.issued_at
  and (a.ends_at is null or k.expires_at <= a.ends_at)
  and k.expires_at <= k.issued_at + make_interval(secs => a.lifetime)
  and p.car_id = k.car_id and p.kind = 'Box' and not v.is_terminated and d.user_id = k.user_id
  and s.user_id is not null and i.revoked_at is null
  and k.epoch >= (select max(epoch) from box_epoch e where e.customer_id = k.customer_id
    and e.product_id = k.product_id and not e.is_pending)
) is not true
"""
# Two keys in one place
TWICE = """
select product_id, epoch, generation, place from box_key where customer_id = $1 and is_placed
group by 1, 2, 3, 4 having count(*) > 1
"""
# Assignments for which a phone must have a key
IN_FORCE = """
select assignment_id from assignment join product using (customer_id, car_id)
where customer_id = $1 and user_id = $2 and (ends_at is null or ends_at > $3)
  and starts_at < $3 + make_interval(secs => lifetime)
"""
PENDING = "select exists (select from operation where customer_id = $1 and state = 'Pending')"


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@dataclass
class Fleet:
    """Cars with boxes, users with phones, and actions on them."""

    person: Person
    operator: Operator
    sdk_key: str
    cars: list[int]
    boxes: list[Firmware]
    phones: list[Phone]
    answers: list[httpx.Response] = field(default_factory=list[httpx.Response])

    def kept(self, answer: httpx.Response) -> httpx.Response:
        self.answers.append(answer)
        return answer

    def assignments(self, phone: Phone) -> list[int]:
        answer = self.kept(self.person.get(f"/users/{phone.user}/assignments"))
        return [row["id"] for row in answer.json()] if answer.status_code == 200 else []

    # Actions, each with a number that chooses its object

    def fetch(self, chance: random.Random) -> None:
        phone = chance.choice(self.phones)
        self.kept(phone.call("GET", "/sdk/keys", params={"device": phone.id}))

    def status(self, chance: random.Random) -> None:
        self.kept(self.person.get(f"/boxes/{chance.choice(self.boxes).product}/status"))

    def assign(self, chance: random.Random) -> None:
        start = datetime.now(UTC) + timedelta(hours=chance.choice((-48, -1, 1, 400)))
        body: dict[str, Any] = {"carId": chance.choice(self.cars), "userId": chance.choice(self.phones).user}
        body |= {"start": text(start), "end": chance.choice((None, text(start + timedelta(hours=72))))}
        self.kept(self.person.put("/assignments", body))

    def change(self, chance: random.Random) -> None:
        found = self.assignments(chance.choice(self.phones))
        if found:
            now = datetime.now(UTC)
            path, value = chance.choice([
                ("/end", text(now + timedelta(hours=chance.choice((1, 30, 400))))),
                ("/start", text(now - timedelta(hours=chance.choice((100, 1))))),
                ("/carId", str(chance.choice(self.cars))), ("/userId", str(chance.choice(self.phones).user)),
                ("/lifetime", str(chance.choice((691_200, 864_000, 2_000_000)))),
            ])  # fmt: skip
            steps = [{"op": "replace", "path": path, "value": value}]
            self.kept(self.person.patch(f"/assignments/{chance.choice(found)}", steps))

    def end(self, chance: random.Random) -> None:
        found = self.assignments(chance.choice(self.phones))
        if found:
            self.kept(self.person.delete(f"/assignments/{chance.choice(found)}"))

    def take_out(self, chance: random.Random) -> None:
        number = chance.randrange(len(self.cars))
        body = {"carId": self.cars[number], "productId": self.boxes[number].product}
        self.kept(self.person.delete("/installations", body))
        self.kept(self.person.put("/installations", body))

    def remove(self, chance: random.Random) -> None:
        phone = chance.choice(self.phones)
        self.kept(self.person.delete("/users/assignments/customers", {"userId": phone.user}))
        self.kept(self.person.put("/users/assignments/customers", {"emailAddress": _email(phone.user)}))
        self.sign_in(phone)

    def sign_in(self, phone: Phone) -> None:
        secret = {"customerId": self.person.customer, "sdkKey": self.sdk_key, "userId": phone.user}
        answer = self.kept(self.person.post("/sdk/token", secret))
        if answer.status_code == 200:
            phone.token = answer.json()["id_token"]
            self._register(phone)

    def register(self, chance: random.Random) -> None:
        self._register(chance.choice(self.phones))

    def _register(self, phone: Phone) -> None:
        nonce = self.kept(phone.call("POST", "/sdk/devices/nonce"))
        if nonce.status_code == 200:
            key = phone.key
            signed = registration(phone.subject, key.public, raw(nonce.json()["nonce"]), key.sign)
            self.kept(phone.call("PUT", "/sdk/devices", {"registration": b64(signed), "name": "Phone"}))

    def lose(self, chance: random.Random) -> None:
        phone = chance.choice(self.phones)
        path = chance.choice((f"/users/{phone.user}/devices/{phone.id}", ""))
        self.kept(self.person.delete(path) if path else phone.call("DELETE", f"/sdk/devices/{phone.id}"))
        phone.key = PrivateKey.generate()  # a removed phone stays removed
        self.sign_in(phone)

    def enrol(self, chance: random.Random) -> None:
        box = chance.choice(self.boxes)
        with _ONE_AT_A_BOX:
            box.key = PrivateKey.generate()
            box.reset()
            box.enrol(self.person)
            entries = [b64(entry) for entry in box.state.kept.log.entries]
        if chance.random() < 0.7:
            self.kept(chance.choice(self.phones).call("PUT", "/sdk/boxlog", {"entries": entries}))
        elif chance.random() < 0.5:
            self.kept(self.person.delete(f"/boxes/{box.product}/enrolment"))

    def deliver(self, chance: random.Random) -> None:
        box, phone = chance.choice(self.boxes), chance.choice(self.phones)
        with _ONE_AT_A_BOX:
            entry = Logbook(box).entry(chance.randrange(1, 5))
        self.kept(phone.call("PUT", "/sdk/boxlog", {"entries": [b64(entry)]}))

    def command(self, chance: random.Random) -> None:
        service = self.person.sql.value(
            "select service_id from service where customer_id = $1 and product_id = $2", self.person.customer,
            chance.choice(self.boxes).product,
        )  # fmt: skip
        of = ("--customer", self.person.customer)
        for words in chance.choice([
            [("service", "change", service, "--terminate"), ("service", "change", service, "--reinstate")],
            [("keys", "rotate", *of, "--revoke", "--yes")], [("keys", "policy", *of, "--limit", "2d", "--yes")],
            [("keys", "policy", *of, "--limit", "off", "--uncertain", "open", "--yes")],
        ]):  # fmt: skip
            self.operator.value(*words)

    def settled(self) -> None:
        eventually(lambda: not self.person.sql.value(PENDING, self.person.customer), "what was asked for")

    def sound(self) -> None:
        """Check the invariants."""
        unforeseen = [one for one in self.answers if one.status_code >= 500 and one.text != str(BUSY)]
        assert [(one.status_code, str(one.request.url), one.text) for one in unforeseen] == []
        assert self.person.sql.rows(TOO_MUCH, self.person.customer) == []
        assert self.person.sql.rows(TWICE, self.person.customer) == []


_ONE_AT_A_BOX = threading.Lock()


def _email(user: int) -> str:
    return f"racer.{user}@example.org"


def fleet(person: Person, operator: Operator, cars: int, users: int) -> Fleet:
    made = [garage(person) for _ in range(cars)]
    phones = [driver(person) for _ in range(users)]
    for phone in phones:
        person.sql.execute("update person set email_address = $2 where user_id = $1", phone.user, _email(phone.user))
    secret = secret_hashes.new_secret()
    hashed = secret_hashes.digest(secret)
    person.sql.execute("insert into sdk_key (customer_id, hash) values ($1, $2)", person.customer, hashed)
    found = Fleet(person, operator, secret, [car for car, _ in made], [box for _, box in made], phones)
    for phone in phones:
        for car in found.cars:
            person.put("/assignments", {"carId": car, "userId": phone.user, "start": "2026-01-01T00:00:00Z"})
    found.settled()
    return found


WEIGHED = ["fetch"] * 6 + ["status", "assign", "change", "change", "end", "take_out", "lose", "register", "deliver"]


def test_no_key_exceeds_the_tables_after_concurrent_changes(carol: Person, operator: Operator) -> None:
    racing = fleet(carol, operator, cars=2, users=4)
    parts = [(seed, WEIGHED, 25) for seed in range(6)]
    parts += [(100, ["command"], 6), (101, ["remove", "enrol"], 8)]

    def run(seed: int, names: list[str], times: int) -> None:
        chance = random.Random(seed)
        for _ in range(times):
            getattr(racing, chance.choice(names))(chance)

    with ThreadPoolExecutor(len(parts)) as pool:
        for done in [pool.submit(run, *part) for part in parts]:
            done.result()
    racing.settled()
    racing.sound()
    for phone in racing.phones:
        answer = phone.call("GET", "/sdk/keys", params={"device": phone.id})
        assert answer.status_code in (200, 401, 404), answer.text  # it was too busy to sign a user in again
    racing.sound()


def at_once(phone: Phone, *calls: tuple[str, str]) -> list[httpx.Response]:
    """The answers to simultaneous calls of the phone."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: phone.call(*call), calls))


def test_concurrent_fetches_of_one_phone_return_the_same_keys(alice: Person) -> None:
    """The phone has one key for each assignment, the same in each answer."""
    made = [garage(alice) for _ in range(3)]
    kim = driver(alice)
    for car, _ in made:
        alice.assignment(car, kim.user)
    found = at_once(kim, *[("GET", f"/sdk/keys?device={kim.id}")] * 12)
    assert {one.status_code for one in found} == {200}
    assert len({key["key"] for one in found for key in one.json()["keys"]}) == 3
    assert alice.sql.value("select count(*) from box_key where customer_id = $1 and user_id = $2",
                           alice.customer, kim.user) == 3  # fmt: skip


def test_a_phone_that_is_removed_during_a_fetch_has_no_valid_key(alice: Person, sql: Sql) -> None:
    """In either order, no key of a removed phone may open."""
    car, _ = garage(alice)
    for _ in range(6):
        kim = driver(alice)
        alice.assignment(car, kim.user)
        calls = [("GET", f"/sdk/keys?device={kim.id}"), ("DELETE", f"/sdk/devices/{kim.id}")]
        assert {one.status_code for one in at_once(kim, *calls * 2)} <= {200, 204, 404}
    assert sql.rows(TOO_MUCH, alice.customer) == []


# Changes that remove the basis of a key
GONE = {
    "assignment": "delete from assignment where customer_id = {customer} and assignment_id = {assignment}",
    "its end": "update assignment set ends_at = now() + interval '1 hour' where customer_id = {customer}"
    " and assignment_id = {assignment}",
    "box": "update product set car_id = null where customer_id = {customer} and product_id = {product}",
    "service": "update service set is_terminated = true, terminated_at = now() where customer_id = {customer}"
    " and product_id = {product}",
    "phone": "delete from app_device where customer_id = {customer} and user_id = {user}",
    "user": "delete from customer_user where customer_id = {customer} and user_id = {user}",
}
WAITS = "select exists (select from pg_locks where not granted)"


@pytest.mark.parametrize("what", GONE)
def test_a_fetch_waits_for_an_uncommitted_deletion(alice: Person, sql: Sql, what: str) -> None:
    """A fetch waits for an uncommitted deletion, and then sees it."""
    car, box = garage(alice)
    kim = driver(alice)
    assignment = alice.assignment(car, kim.user)
    named = {"customer": alice.customer, "assignment": assignment, "product": box.product, "user": kim.user}
    sql.execute("begin")
    try:
        sql.execute(GONE[what].format(**named))
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(kim.call, "GET", f"/sdk/keys?device={kim.id}")
            eventually(lambda: asked.done() or sql.value(WAITS), "the fetch")
            sql.execute("commit")
            assert asked.result().status_code == {"phone": 404, "user": 401}.get(what, 200)
    finally:
        sql.execute("rollback")
    assert sql.rows(TOO_MUCH, alice.customer) == []


WAITING = "select count(*) from pg_locks where not granted"
# Rows of the customer that the first one waits for, after it has locked the authority
BLOCKED = {
    "policy": "select from box_key where customer_id = $1 for update",
    "fetch": "select from status_generation where customer_id = $1 for update",
}


@pytest.mark.parametrize("first", BLOCKED)
def test_a_narrower_policy_holds_for_a_concurrent_fetch(
    carol: Person, operator: Operator, sql: Sql, first: str
) -> None:
    """Either of them waits for a row here. No key that exceeds the new policy stays in force."""
    car, _ = garage(carol)
    sql.execute("update key_authority set freshness = null where customer_id = $1", carol.customer)
    kim, lee = driver(carol), driver(carol)
    for phone in (kim, lee):
        carol.assignment(car, phone.user)
    kim.fetch()
    narrow = ("keys", "policy", "--customer", carol.customer, "--limit", "1h", "--yes")
    calls: dict[str, Callable[[], object]] = {
        "policy": lambda: operator.quick(*narrow)[0],
        "fetch": lambda: lee.call("GET", f"/sdk/keys?device={lee.id}").status_code,
    }
    second = "fetch" if first == "policy" else "policy"
    with ThreadPoolExecutor(2) as pool:
        sql.execute("begin")
        try:
            sql.rows(BLOCKED[first], carol.customer)
            results = {first: pool.submit(calls[first])}
            eventually(lambda: sql.value(WAITING) == 1, "the first")
            results[second] = pool.submit(calls[second])
            eventually(lambda: sql.value(WAITING) >= 2, "the second")
        finally:
            sql.execute("rollback")
        assert (results["policy"].result(), results["fetch"].result()) == (0, 200)
    in_force = "select freshness from box_key where customer_id = $1 and revoked_at is null"
    assert {row["freshness"] for row in sql.rows(in_force, carol.customer)} <= {3_600}
    lee.fetch()
    assert {row["freshness"] for row in sql.rows(in_force, carol.customer)} == {3_600}


def test_two_commands_change_parts_of_one_policy(carol: Person, operator: Operator, sql: Sql) -> None:
    """Each command keeps the parts that the other one has set."""
    garage(carol)
    of = ("keys", "policy", "--customer", carol.customer, "--uncertain", "open", "--approve-phones", "on")
    other = "update key_authority set freshness = 3600, needs_second_person = true where customer_id = $1"
    with ThreadPoolExecutor(1) as pool:
        sql.execute("begin")
        try:
            sql.execute(other, carol.customer)
            command = pool.submit(operator.quick, *of)
            eventually(lambda: sql.value(WAITING) == 1, "the command")
        finally:
            sql.execute("commit")
        assert command.result()[0] == 0
    shown = operator.value("keys", "show", "--customer", carol.customer)
    policy = [shown[name] for name in ("limit", "secondPerson", "uncertain", "approvePhones")]
    assert policy == [3_600, "on", "open", "on"]


@pytest.fixture(scope="module")
def quiet(town: Town, operator: Operator) -> Iterator[Fleet]:
    person = town.person("quinn")
    yield fleet(person, operator, cars=2, users=2)
    person.client.close()


STEPS = ["fetch", "assign", "change", "end", "take_out", "lose", "remove", "enrol"]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1_000)), min_size=3, max_size=8))
def test_each_phone_has_its_keys_after_random_changes(quiet: Fleet, steps: list[tuple[str, int]]) -> None:
    """Each phone gets a key for each assignment in force with a box, and no other."""
    for name, seed in steps:
        getattr(quiet, name)(random.Random(seed))
        if seed % 2:
            quiet.settled()
    quiet.settled()
    quiet.sound()
    now = datetime.now(UTC)
    for phone in quiet.phones:
        rows = quiet.person.sql.rows(IN_FORCE, quiet.person.customer, phone.user, now)
        held = phone.fetch()
        told = [key["assignmentId"] for key in held["keys"]] + [one["assignmentId"] for one in held["withheld"]]
        assert sorted({*told}) == sorted(row["assignment_id"] for row in rows)
        for key in held["keys"]:
            claims = cose.read(raw(key["key"]), KEY).claims
            assert (claims["assignment"], claims["aud"], claims["cnf"]) == (
                key["assignmentId"], key["box"], phone.key.public,
            )  # fmt: skip
    quiet.sound()
