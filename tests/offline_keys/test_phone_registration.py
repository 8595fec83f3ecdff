"""Phones that get keys: registration, list, approval and removal."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from keyrack.api.permissions import Role
from keyrack.core.error_codes import INVALID_TOKEN
from keyrack.core.settings import Settings
from keyrack.offline_keys import cose, phone
from keyrack.offline_keys.message_fields import ENROLMENT, REGISTRATION
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth import group_scope
from tests.auth.group_scope import limited
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Clock, clock
from tests.offline_keys.offline_world import Phone, b64, driver, garage, raw
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer, eventually

__all__ = ["clock"]

PATH = "/sdk/devices"
WRONG = "Couldn't register device. No valid registration provided."
NO_DEVICE = "Unable to find a device for the given deviceId which is assigned to the user."
NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."
OTHERS = "The key is registered for another user."
REMOVED = "The phone was removed, so its key cannot be registered again."
NO_NONCE = "The registration names a nonce that was never issued, was used, or has expired."
OLD_TOKEN = "The id token was issued before a phone of the user was removed, or before the user joined the customer."
NOT_APPROVED = "The phone is waiting for the approval of a manager."
ROWS = [
    ("POST", PATH + "/nonce"), ("PUT", PATH), ("GET", PATH), ("DELETE", PATH + "/abc"), ("GET", "/sdk/keys"),
    ("PUT", "/sdk/boxlog"), ("POST", "/sdk/time"),
]  # fmt: skip


def signed_in(person: Person, user: int | None = None) -> Phone:
    found = Phone(person, user or person.user())
    found.sign_in()
    return found


def listed(kim: Phone) -> list[dict[str, Any]]:
    answer = kim.call("GET", PATH)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_registered_phone_can_be_renamed(alice: Person) -> None:
    kim = signed_in(alice)
    body = {"registration": b64(kim.registration()), "name": "Kim's phone", "claimedProtection": "SecureElement"}
    first = kim.call("PUT", PATH, body)
    assert first.status_code == 200, first.text
    assert first.json() == {
        "id": kim.id, "name": "Kim's phone", "claimedProtection": "SecureElement",
        "registered": first.json()["registered"], "isApproved": True,
    }  # fmt: skip
    assert kim.call("PUT", PATH, body).json() == first.json()
    again = kim.call("PUT", PATH, body | {"name": "Old phone", "claimedProtection": "Software"}).json()
    assert again == first.json() | {"name": "Old phone", "claimedProtection": "Software"}
    assert listed(kim) == [again]
    (seen,) = alice.get(f"/users/{kim.user}/devices").json()
    assert seen | {"registered": again["registered"]} == again
    assert seen["registered"][:19] == again["registered"][:19]  # with the fraction, as reads of resources have it


def test_an_app_needs_no_key_of_the_installation_and_a_manager_is_no_app(alice: Person) -> None:
    kim = driver(alice)
    assert [one["id"] for one in listed(kim)] == [kim.id]  # with nothing but its token
    for method, path in ROWS:
        answer = alice.client.request(method, path, headers={"vendor-API-Key": alice.api_key})
        assert (answer.status_code, answer.json()["message"]) == (401, INVALID_TOKEN.text), path
        answer = alice.call(method, path)
        assert (answer.status_code, answer.json()["message"]) == (401, INVALID_TOKEN.text), path
        for token in ("", "Bearer", "Basic abc", f"Bearer {kim.token[:-4]}AAAA", f"Bearer {kim.token} x"):
            answer = alice.client.request(method, path, headers={"Authorization": token})
            assert answer.status_code == 401, (path, token)
    headers = alice.headers | {"Authorization": f"Bearer {kim.token}"}
    assert alice.client.get("/cars", headers=headers).status_code == 401


def test_an_expired_or_foreign_id_token_is_refused(alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    kim = driver(alice)
    for name, value in (
        ("keyrack.auth.authenticator.TOKEN_SECONDS", -1),
        ("keyrack.auth.app_tokens.audience", lambda customer: f"keyrack-sdk/{bob.customer}"),
        ("keyrack.auth.app_tokens.audience", lambda customer: [f"keyrack-sdk/{customer}", "x"]),
        ("keyrack.auth.app_tokens.audience", lambda customer: "keyrack"),
    ):
        lee = Phone(alice, kim.user)
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            lee.sign_in()
        for method, path in ROWS:
            answer = lee.call(method, path)
            assert (answer.status_code, answer.json()["message"]) == (401, INVALID_TOKEN.text), (name, path)
    assert listed(kim)


def test_an_id_token_is_valid_for_its_user_and_customer(alice: Person, bob: Person, carol: Person) -> None:
    kim = signed_in(alice)
    his = signed_in(bob)
    assert kim.token != his.token
    his.register()
    kim.register()
    for mine, other in ((kim, his), (his, kim)):
        assert [one["id"] for one in listed(mine)] == [mine.id]
        refused(mine.call("DELETE", f"{PATH}/{other.id}"), 404, NO_DEVICE)
        refused(mine.call("GET", "/sdk/keys", params={"device": other.id}), 404, NO_DEVICE)
    # The token determines the customer, whatever the request names
    answer = kim.call("GET", PATH, headers={"Customer-ID": str(bob.customer)})
    assert [one["id"] for one in answer.json()] == [kim.id]


def test_a_user_that_was_removed_has_no_app(alice: Person) -> None:
    kim = driver(alice, alice.user("comes.back@example.org"))
    assert listed(kim)
    again = {"registration": b64(kim.registration()), "name": "x"}
    done(alice.delete("/users/assignments/customers", {"userId": kim.user}))
    for method, path, body in (
        ("POST", PATH + "/nonce", None),
        ("PUT", PATH, again),
        ("GET", PATH, None),
        ("GET", f"/sdk/keys?device={kim.id}", None),
        ("PUT", "/sdk/boxlog", {"entries": ["AA"]}),
    ):
        answer = kim.call(method, path, body)
        assert (answer.status_code, answer.json()["message"]) == (401, INVALID_TOKEN.text), path
    done(alice.put("/users/assignments/customers", {"emailAddress": "comes.back@example.org"}))
    kim.sign_in()
    assert listed(kim) == []  # an earlier phone does not come back by itself
    kim.register()  # it was not removed: its user was


def registrations(kim: Phone, lee: Phone) -> dict[str, tuple[bytes, str]]:
    """Invalid registrations of Kim's phone, with their reasons."""
    own, other = kim.key, PrivateKey.generate()
    good, nonce = kim.registration(), bytes(16)
    sub = kim.subject
    flipped = bytearray(good)
    flipped[-1] ^= 1
    return {
        "nothing": (b"", "A box would reject the message with the code `encoding`."),
        "noise": (b"\x1c" + os.urandom(200), "A box would reject the message with the code `encoding`."),
        "one byte": (b"\xd2", "A box would reject the message with the code `encoding`."),
        "more": (good + b"\0", "A box would reject the message with the code `encoding`."),
        "no tag": (good[1:], "A box would reject the message with the code `structure`."),
        "too long": (b"\xd2" + bytes(500), "A box would reject the message with the code `too-long`."),
        "deep": (b"\xd2" + b"\x81" * 300, "A box would reject the message with the code `encoding`."),
        "huge": (b"\xd2\x9b" + b"\xff" * 8, "A box would reject the message with the code `encoding`."),
        "indefinite": (b"\xd2\x9f\xff", "A box would reject the message with the code `encoding`."),
        "another message": (
            cose.sign(ENROLMENT, own.public.kid, {"cnf": own.public, "nonce": bytes(16)}, own.sign),
            "A box would reject the message with the code `typ`.",
        ),
        "signature": (bytes(flipped), "The registration must be signed by the key that it contains."),
        "another signer": (
            phone.registration(sub, own.public, nonce, other.sign),
            "The registration must be signed by the key that it contains.",
        ),
        "another kid": (
            cose.sign(REGISTRATION, other.public.kid, {"sub": sub, "cnf": own.public, "nonce": nonce}, own.sign),
            "The registration must be signed by the key that it contains.",
        ),
        "no point": (
            phone.registration(sub, own.public, nonce, own.sign).replace(own.public.y, bytes(32)),
            "A box would reject the message with the code `claims`.",
        ),
        "another subject": (lee.registration(), "The registration is for another user."),
        "another customer's subject": (
            phone.registration("00000000-0000-0000-0000-000000000000", own.public, nonce, own.sign),
            "The registration is for another user.",
        ),
    }


def test_an_invalid_registration_is_refused(alice: Person) -> None:
    kim, lee = signed_in(alice), signed_in(alice)
    for name, (data, why) in registrations(kim, lee).items():
        answer = kim.call("PUT", PATH, {"registration": b64(data), "name": "Phone"})
        assert (answer.status_code, answer.text) == (400, f"{WRONG} {why}"), name
    assert listed(kim) == []


def test_invalid_base64url_is_refused(alice: Person) -> None:
    kim = signed_in(alice)
    good = b64(kim.registration())
    for text in (good + "=", good + "==", good[:-1] + "!", good + "\n", " " + good, good.replace("_", "/") + "+/", None,
                 5, [good], {}, "A" * 2_001, good[:4] + "\0" + good[5:]):  # fmt: skip
        answer = kim.call("PUT", PATH, {"registration": text, "name": "Phone"})
        assert answer.status_code == 400
        assert answer.text.startswith(WRONG)


def test_an_unknown_field_of_a_registration_is_refused(alice: Person) -> None:
    """An unknown field is refused: a misspelt one would not protect the key."""
    kim = signed_in(alice)
    good = {"registration": b64(kim.registration()), "name": "Phone"}
    for body in (good | {"protektion": "SecureElement"}, good | {"claimedProtection": "secureElement"},
                 good | {"name": ""}, good | {"name": " "}, good | {"name": "x" * 101}, good | {"name": None},
                 {"name": "Phone"}, {"registration": good["registration"]}, [good], "x", None):  # fmt: skip
        answer = kim.call("PUT", PATH, body) if body is not None else kim.call("PUT", PATH, content=b"null")
        assert answer.status_code in (400, 415), (body, answer.text)
    for type_ in ("text/plain", "application/cbor", "application/x-www-form-urlencoded"):
        answer = kim.call("PUT", PATH, content=b"{}", headers={"Content-Type": type_})
        assert answer.status_code == 415, answer.text
    assert listed(kim) == []


def test_a_key_belongs_to_one_user(alice: Person, bob: Person) -> None:
    kim, lee = driver(alice), signed_in(alice)
    lee.key = kim.key
    refused(lee.call("PUT", PATH, {"registration": b64(lee.registration()), "name": "Phone"}), 409, OTHERS)
    refused(
        lee.call("PUT", PATH, {"registration": b64(kim.registration()), "name": "Phone"}),
        400,
        f"{WRONG} The registration is for another user.",
    )
    his = signed_in(bob)
    his.key = kim.key
    his.register()  # another customer learns nothing
    done(kim.call("DELETE", f"{PATH}/{kim.id}"))
    refused(lee.call("PUT", PATH, {"registration": b64(lee.registration()), "name": "Phone"}), 409, REMOVED)


def test_the_number_of_phones_of_a_user_is_limited(alice: Person, dsn: str, settings: Settings) -> None:
    kim = signed_in(alice)
    with RunningServer(settings.model_copy(update={"sdk_devices": 2}), dsn, worker=False) as small:
        headers = {"Authorization": f"Bearer {token_for(kim, small)}"}

        def register(name: str) -> httpx.Response:
            kim.key = PrivateKey.generate()
            body = {"registration": b64(kim.registration()), "name": name}
            return alice.client.put(f"{small.url}/v3{PATH}", json=body, headers=headers)

        assert [register(name).status_code for name in ("First", "Second")] == [200, 200]
        refused(register("Third"), 409, "The user already has 2 devices.")
        done(alice.delete(f"/users/{kim.user}/devices/{listed(kim)[0]['id']}"))
        headers["Authorization"] = f"Bearer {token_for(kim, small)}"  # issued after the removal
        assert register("Third").status_code == 200
    assert [one["name"] for one in listed(kim)] == ["Second", "Third"]


def token_for(kim: Phone, server: RunningServer) -> str:
    """A token of that server, whose address is the issuer."""
    other = replace(kim, person=replace(kim.person, client=kim.person.client.__class__(base_url=server.url + "/v3")))
    other.sign_in()
    return other.token


def test_a_user_removes_a_phone(alice: Person) -> None:
    kim = driver(alice)
    lee = Phone(alice, kim.user, token=kim.token)
    lee.register("Second")
    assert [one["name"] for one in listed(kim)] == ["Phone", "Second"]
    done(kim.call("DELETE", f"{PATH}/{lee.id}"))
    refused(kim.call("DELETE", f"{PATH}/{lee.id}"), 404, NO_DEVICE)
    assert [one["id"] for one in listed(kim)] == [kim.id]
    for id in ("x", "A" * 43, "A" * 3_000, "%00", "a%2Fb", "..%2f", kim.id + "=", "ä", kim.id[:-1]):
        refused(kim.call("DELETE", f"{PATH}/{id}"), 404, NO_DEVICE)
    assert [one["id"] for one in listed(kim)] == [kim.id]


def test_a_manager_lists_and_removes_phones(alice: Person, bob: Person, town: Town) -> None:
    kim = driver(alice)
    path = f"/users/{kim.user}/devices"
    refused(alice.delete(f"{path}/{'A' * 43}"), 404, NO_DEVICE)
    refused(alice.delete(f"/users/2147483647/devices/{kim.id}"), 404, NO_USER)
    refused(alice.delete(f"/users/{alice.user()}/devices/{kim.id}"), 404, NO_DEVICE)
    for method, there, other in (
        ("GET", path, "/users/2147483647/devices"),
        ("DELETE", f"{path}/{kim.id}", f"/users/2147483647/devices/{kim.id}"),
    ):
        hers, nobodys = bob.call(method, there), bob.call(method, other)
        assert (hers.status_code, hers.text) == (nobodys.status_code, nobodys.text) == (404, NO_USER)
    group, other = alice.group(), alice.group()
    group_scope.put(alice, group, "userId", kim.user)
    inside, outside = (limited(town, alice, name, [one]) for name, one in (("ina", group), ("ole", other)))
    assert [one["id"] for one in inside.get(path).json()] == [kim.id]
    refused(outside.get(path), 404, NO_USER)
    refused(outside.delete(f"{path}/{kim.id}"), 404, NO_USER)
    viewer = limited(town, alice, "vic", [group], Role.VIEWER)
    assert viewer.get(path).status_code == 200
    assert viewer.delete(f"{path}/{kim.id}").status_code == 403
    assert [one["id"] for one in listed(kim)] == [kim.id]
    done(inside.delete(f"{path}/{kim.id}"))
    assert listed(kim) == []


def test_a_removed_phone_gets_no_keys(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    assert kim.keys(box)
    done(kim.call("DELETE", f"{PATH}/{kim.id}"))
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 404, NO_DEVICE)
    first = kim.keys(box)
    kim.key = PrivateKey.generate()
    kim.sign_in()
    kim.register()
    kim.fetch()
    assert kim.keys(box) != first


# A removed phone


def put(kim: Phone, registration: bytes | None = None) -> httpx.Response:
    return kim.call("PUT", PATH, {"registration": b64(registration or kim.registration()), "name": "Phone"})


def removed_earlier(person: Person, seconds: int) -> None:
    """Move all removals of the customer into the past: id tokens have whole seconds."""
    person.sql.execute(
        "update removed_device set removed_at = removed_at - make_interval(secs => $2) where customer_id = $1",
        person.customer,
        seconds,
    )


@pytest.mark.parametrize("by_manager", [True, False])
def test_a_removed_phone_stays_removed(alice: Person, by_manager: bool) -> None:
    car, _ = garage(alice)
    kim = signed_in(alice)
    registration = kim.registration()
    assert put(kim, registration).status_code == 200
    alice.assignment(car, kim.user)
    kim.fetch()
    second = Phone(alice, kim.user, token=kim.token)
    second.register("Second")
    if by_manager:
        done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    else:
        done(second.call("DELETE", f"{PATH}/{kim.id}"))
    refused(put(kim, registration), 409, REMOVED)
    refused(put(kim), 409, REMOVED)
    kim.sign_in()
    refused(put(kim), 409, REMOVED)
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 404, NO_DEVICE)
    assert [one["id"] for one in listed(kim)] == [second.id]
    assert second.fetch()["keys"], "the other phone goes on"


def test_an_id_token_from_before_a_removal_registers_nothing(alice: Person) -> None:
    kim = driver(alice)
    old = kim.token
    done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    removed_earlier(alice, -2)
    kim.key = PrivateKey.generate()
    answer = put(kim)
    assert (answer.status_code, answer.json()["message"]) == (401, OLD_TOKEN)
    assert listed(kim) == []
    removed_earlier(alice, 4)
    kim.sign_in()
    kim.register()
    kim.token = old
    assert put(kim).status_code == 200, "a registered phone gets another name"


def joined_earlier(person: Person, user: int, seconds: int) -> None:
    """Move the time of joining into the past: id tokens have whole seconds."""
    earlier = "update customer_user set joined_at = joined_at - make_interval(secs => $3) where customer_id = $1"
    person.sql.execute(f"{earlier} and user_id = $2", person.customer, user, seconds)


def test_an_id_token_from_before_the_user_rejoined_registers_nothing(alice: Person, bob: Person) -> None:
    """The customer's records of removed phones are deleted with the user, so they must not be needed."""
    address = "leaves.and.comes.back@example.org"
    kim = driver(alice, alice.user(address))
    old, user = kim.token, {"emailAddress": address}
    done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    done(alice.delete("/users/assignments/customers", {"userId": kim.user}))
    done(alice.put("/users/assignments/customers", user))
    kim.sign_in()  # makes the subject of the old token valid again
    new, kim.token = kim.token, old
    joined_earlier(alice, kim.user, -2)
    for key in (kim.key, PrivateKey.generate()):
        kim.key = key
        answer = put(kim)
        assert (answer.status_code, answer.json()["message"]) == (401, OLD_TOKEN)
    assert listed(kim) == []
    joined_earlier(alice, kim.user, 4)
    kim.token = new
    assert put(kim).status_code == 200
    kim.token = old
    assert put(kim).status_code == 200, "a registered phone gets another name"


def test_a_token_of_the_second_of_joining_is_valid(alice: Person) -> None:
    kim = signed_in(alice)
    issued = "update customer_user set joined_at = to_timestamp($3) where customer_id = $1 and user_id = $2"
    iat = json.loads(raw(kim.token.split(".")[1]))["iat"]
    alice.sql.execute(issued, alice.customer, kim.user, iat + 0.999)
    assert put(kim).status_code == 200
    kim.key = PrivateKey.generate()
    alice.sql.execute(issued, alice.customer, kim.user, iat + 1)
    assert put(kim).status_code == 401


def test_a_user_from_before_the_upgrade_can_register(alice: Person) -> None:
    kim = signed_in(alice)
    unknown = "update customer_user set joined_at = null where customer_id = $1 and user_id = $2"
    alice.sql.execute(unknown, alice.customer, kim.user)
    assert put(kim).status_code == 200


def test_removals_of_others_change_nothing(alice: Person, bob: Person) -> None:
    kim, lee, his = driver(alice), signed_in(alice), signed_in(bob)
    done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    removed_earlier(alice, -2)
    lee.register()
    his.key = kim.key
    his.register()  # removals count within a customer


def test_the_number_of_remembered_removals_is_limited(alice: Person) -> None:
    kim, lee = driver(alice), driver(alice)
    done(alice.delete(f"/users/{lee.user}/devices/{lee.id}"))
    alice.sql.execute(
        "insert into app_device (customer_id, device_id, user_id, public_key, name, protection)"
        " select $1, sha256(n::text::bytea), $2, '', 'Phone', 'Software' from generate_series(1, 1100) n",
        alice.customer, kim.user,
    )  # fmt: skip
    alice.sql.execute("delete from app_device where customer_id = $1 and user_id = $2 and public_key = ''",
                      alice.customer, kim.user)  # fmt: skip
    done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    count = "select count(*) from removed_device where customer_id = $1 and user_id = $2"
    assert alice.sql.value(count, alice.customer, kim.user) == 1_000
    assert alice.sql.value(count, alice.customer, lee.user) == 1, "of each user"
    refused(put(kim), 409, REMOVED)


def test_a_phone_removed_during_a_registration_stays_removed(alice: Person) -> None:
    """A removed phone does not exist afterwards, in either order of the requests."""
    for _ in range(10):
        kim = driver(alice)
        registration = kim.registration()
        path = f"/users/{kim.user}/devices/{kim.id}"
        with ThreadPoolExecutor(8) as pool:
            puts = [pool.submit(put, kim, registration) for _ in range(6)]
            removal = pool.submit(alice.delete, path)
            assert {one.result().status_code for one in puts} <= {200, 409}
            done(removal.result())
        assert listed(kim) == []


def test_two_users_register_one_key_at_once(alice: Person) -> None:
    """One of them gets the phone, the other one gets an error."""
    for _ in range(10):
        kim, lee = signed_in(alice), signed_in(alice)
        lee.key = kim.key
        registrations = kim.registration(), lee.registration()
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(put, (kim, lee), registrations))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert {answer.text for answer in answers if answer.status_code == 409} == {OTHERS}
        phones = [listed(user) for user in (kim, lee)]
        assert sorted(len(each) for each in phones) == [0, 1]
        assert [len(each) for each in phones] == [int(answer.status_code == 200) for answer in answers]


# A nonce


def test_a_registration_needs_a_nonce_of_the_server(alice: Person, clock: Clock) -> None:
    kim, lee = signed_in(alice), signed_in(alice)
    answer = kim.call("POST", PATH + "/nonce")
    assert answer.headers["cache-control"] == "no-store"
    lasts = datetime.fromisoformat(answer.json()["expires"]) - datetime.now(UTC)
    assert 590 < lasts.total_seconds() <= 600

    def registration(nonce: bytes) -> bytes:
        return phone.registration(kim.subject, kim.key.public, nonce, kim.key.sign)

    old, new = raw(answer.json()["nonce"]), kim.nonce()
    for nonce in (bytes(16), old, lee.nonce()):
        refused(put(kim, registration(nonce)), 409, NO_NONCE)
    assert listed(kim) == []
    assert put(kim, registration(new)).status_code == 200
    kim.key = PrivateKey.generate()
    refused(put(kim, registration(new)), 409, NO_NONCE)
    late = kim.nonce()
    clock.ahead = 602
    refused(put(kim, registration(late)), 409, NO_NONCE)
    late = kim.nonce()
    clock.ahead = 602 + 590
    assert put(kim, registration(late)).status_code == 200


def test_a_refused_registration_leaves_its_nonce(alice: Person, dsn: str, settings: Settings) -> None:
    kim = driver(alice)
    registration = phone.registration(kim.subject, (key := PrivateKey.generate()).public, kim.nonce(), key.sign)
    body = {"registration": b64(registration), "name": "Phone"}
    with RunningServer(settings.model_copy(update={"sdk_devices": 1}), dsn, worker=False) as small:
        headers = {"Authorization": f"Bearer {token_for(kim, small)}"}
        answer = alice.client.put(f"{small.url}/v3{PATH}", json=body, headers=headers)
        refused(answer, 409, "The user already has 1 devices.")
    assert kim.call("PUT", PATH, body).status_code == 200


def test_registrations_per_hour_are_limited(alice: Person, dsn: str, settings: Settings) -> None:
    kim, lee = signed_in(alice), signed_in(alice)
    with RunningServer(settings.model_copy(update={"sdk_registrations_per_hour": 2}), dsn, worker=False) as slow:

        def register(who: Phone) -> httpx.Response:
            who.key = PrivateKey.generate()
            body = {"registration": b64(who.registration()), "name": "Phone"}
            headers = {"Authorization": f"Bearer {token_for(who, slow)}"}
            return alice.client.put(f"{slow.url}/v3{PATH}", json=body, headers=headers)

        assert [register(kim).status_code for _ in range(3)] == [200, 200, 429]
        assert register(lee).status_code == 200
        assert int(register(kim).headers["Retry-After"]) > 60


def test_a_revoked_sdk_key_registers_nothing(alice: Person) -> None:
    kim = signed_in(alice)
    registration = kim.registration()
    alice.sql.execute("update sdk_key set revoked_at = now() where customer_id = $1", alice.customer)

    def is_refused() -> bool:
        answers = [kim.call("POST", PATH + "/nonce"), put(kim, registration)]
        return [answer.status_code for answer in answers] == [401, 401]

    eventually(is_refused, "the end of the id token")


# The approval of a phone


@pytest.fixture
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def approves(carol: Person, operator: Operator) -> Person:
    """A customer whose managers must approve new phones."""
    garage(carol)
    operator.value("keys", "policy", "--customer", carol.customer, "--approve-phones", "on")
    return carol


def test_a_manager_approves_a_phone(carol: Person, operator: Operator) -> None:
    car, box = garage(carol)
    before = driver(carol)
    assert operator.value("keys", "policy", "--customer", carol.customer, "--approve-phones", "on") == {
        "customer": carol.customer, "limit": 72 * 3_600, "uncertain": "refuse", "revokedKeys": 0,
        "secondPerson": "off", "approvePhones": "on", "waitingDevices": 0,
    }  # fmt: skip
    kim = driver(carol, before.user)
    carol.assignment(car, kim.user)
    (first, second) = listed(kim)
    assert (first["isApproved"], second["isApproved"]) == (True, False)
    path = f"/users/{kim.user}/devices"
    assert [one["isApproved"] for one in carol.get(path, params={"$orderby": "registered"}).json()] == [True, False]
    assert before.fetch()["keys"], "a phone of before goes on"
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 403, NOT_APPROVED)
    assert put(kim).json()["isApproved"] is False, "it does not approve itself"
    shown = operator.value("keys", "show", "--customer", carol.customer)
    assert (shown["approvePhones"], shown["devices"], shown["waitingDevices"]) == ("on", 2, 1)
    for _ in range(2):
        done(carol.put(f"{path}/{kim.id}/approval"))
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert put(kim).json()["isApproved"] is True


def test_a_waiting_phone_stays_so_without_the_policy(approves: Person, operator: Operator) -> None:
    kim = driver(approves)
    of = ("--customer", approves.customer)
    assert operator.value("keys", "policy", *of, "--approve-phones", "off")["waitingDevices"] == 1
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 403, NOT_APPROVED)
    assert driver(approves).fetch()["keys"] == []


def test_permissions_for_the_approval_of_a_phone(approves: Person, bob: Person, town: Town) -> None:
    kim = driver(approves)
    path = f"/users/{kim.user}/devices/{kim.id}/approval"
    refused(approves.put(f"/users/{kim.user}/devices/{'A' * 43}/approval"), 404, NO_DEVICE)
    refused(approves.put(f"/users/2147483647/devices/{kim.id}/approval"), 404, NO_USER)
    refused(approves.put(f"/users/{approves.user()}/devices/{kim.id}/approval"), 404, NO_DEVICE)
    theirs, nobodys = bob.put(path), bob.put("/users/2147483647/devices/" + kim.id + "/approval")
    assert (theirs.status_code, theirs.text) == (nobodys.status_code, nobodys.text) == (404, NO_USER)
    assert kim.call("PUT", path).status_code == 401
    group, other = approves.group(), approves.group()
    group_scope.put(approves, group, "userId", kim.user)
    inside, outside = (limited(town, approves, name, [one]) for name, one in (("ina", group), ("ole", other)))
    refused(outside.put(path), 404, NO_USER)
    assert limited(town, approves, "vic", [group], Role.VIEWER).put(path).status_code == 403
    assert listed(kim)[0]["isApproved"] is False
    done(inside.put(path))
    assert listed(kim)[0]["isApproved"] is True


def test_the_change_log_records_new_and_approved_phones(approves: Person) -> None:
    kim = driver(approves)
    done(approves.put(f"/users/{kim.user}/devices/{kim.id}/approval"))
    query = f"/changes?$filter=resource eq 'device' and resourceId eq '{kim.id}'&$orderby=id"

    def recorded() -> list[dict[str, Any]] | None:
        changes: list[dict[str, Any]] = approves.get(query).json()
        return changes if len(changes) == 2 else None

    changes = eventually(recorded, "both changes")
    assert [(one["kind"], one["before"], one["after"]) for one in changes] == [
        ("device.created", None, {"protection": "Software", "isApproved": False}),
        ("device.approved", {"isApproved": False}, {"isApproved": None}),
    ]
