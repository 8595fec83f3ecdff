"""Phones that get keys: registered by an app for its user, listed and removed by user and manager."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import httpx
import pytest

from keyrack.api.permissions import Role
from keyrack.core.error_codes import INVALID_TOKEN
from keyrack.core.settings import Settings
from keyrack.offline_keys import cose, phone
from keyrack.offline_keys.message_fields import ENROLMENT, REGISTRATION
from keyrack.offline_keys.p256 import PrivateKey
from tests.auth.group_scope import limited, put
from tests.offline_keys.offline_world import Phone, b64, driver, garage
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer

PATH = "/sdk/devices"
WRONG = "Couldn't register device. No valid registration provided."
NO_DEVICE = "Unable to find a device for the given deviceId which is assigned to the user."
NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."
OTHERS = "The key is registered for another user."
ROWS = [("PUT", PATH), ("GET", PATH), ("DELETE", PATH + "/abc"), ("GET", "/sdk/keys"), ("PUT", "/sdk/boxlog"),
        ("POST", "/sdk/time")]  # fmt: skip


def signed_in(person: Person, user: int | None = None) -> Phone:
    found = Phone(person, user or person.user())
    found.sign_in()
    return found


def listed(kim: Phone) -> list[dict[str, Any]]:
    answer = kim.call("GET", PATH)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_phone_is_registered_once_and_named_anew(alice: Person) -> None:
    kim = signed_in(alice)
    body = {"registration": b64(kim.registration()), "name": "Kim's phone", "protection": "SecureElement"}
    first = kim.call("PUT", PATH, body)
    assert first.status_code == 200, first.text
    assert first.json() == {
        "id": kim.id, "name": "Kim's phone", "protection": "SecureElement", "registered": first.json()["registered"],
    }  # fmt: skip
    assert kim.call("PUT", PATH, body).json() == first.json()
    again = kim.call("PUT", PATH, body | {"name": "Old phone", "protection": "Software"}).json()
    assert again == first.json() | {"name": "Old phone", "protection": "Software"}
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


def test_a_token_that_is_over_or_meant_for_others(alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_an_id_token_is_good_for(alice: Person, bob: Person, carol: Person) -> None:
    kim = signed_in(alice)
    his = signed_in(bob)
    assert kim.token != his.token
    his.register()
    kim.register()
    for mine, other in ((kim, his), (his, kim)):
        assert [one["id"] for one in listed(mine)] == [mine.id]
        refused(mine.call("DELETE", f"{PATH}/{other.id}"), 404, NO_DEVICE)
        refused(mine.call("GET", "/sdk/keys", params={"device": other.id}), 404, NO_DEVICE)
    # Whatever customer is named beside it, the token says which one it is
    answer = kim.call("GET", PATH, headers={"Customer-ID": str(bob.customer)})
    assert [one["id"] for one in answer.json()] == [kim.id]


def test_a_user_that_was_removed_has_no_app(alice: Person) -> None:
    kim = driver(alice, alice.user("comes.back@example.org"))
    assert listed(kim)
    done(alice.delete("/users/assignments/customers", {"userId": kim.user}))
    for method, path, body in (
        ("PUT", PATH, {"registration": b64(kim.registration()), "name": "x"}),
        ("GET", PATH, None),
        ("GET", f"/sdk/keys?device={kim.id}", None),
        ("PUT", "/sdk/boxlog", {"entries": ["AA"]}),
    ):
        answer = kim.call(method, path, body)
        assert (answer.status_code, answer.json()["message"]) == (401, INVALID_TOKEN.text), path
    done(alice.put("/users/assignments/customers", {"emailAddress": "comes.back@example.org"}))
    kim.sign_in()
    assert listed(kim) == []  # a phone of before is not there by itself


def registrations(kim: Phone, lee: Phone) -> dict[str, tuple[bytes, str]]:
    """What is no registration of Kim's phone, and why not."""
    own, other = kim.key, PrivateKey.generate()
    good = kim.registration()
    sub = kim.subject
    flipped = bytearray(good)
    flipped[-1] ^= 1
    return {
        "nothing": (b"", "A box would say encoding."),
        "noise": (b"\x1c" + os.urandom(200), "A box would say encoding."),
        "one byte": (b"\xd2", "A box would say encoding."),
        "more": (good + b"\0", "A box would say encoding."),
        "no tag": (good[1:], "A box would say structure."),
        "too long": (b"\xd2" + bytes(500), "A box would say too-long."),
        "deep": (b"\xd2" + b"\x81" * 300, "A box would say encoding."),
        "huge": (b"\xd2\x9b" + b"\xff" * 8, "A box would say encoding."),
        "indefinite": (b"\xd2\x9f\xff", "A box would say encoding."),
        "another message": (
            cose.sign(ENROLMENT, own.public.kid, {"cnf": own.public, "nonce": bytes(16)}, own.sign),
            "A box would say typ.",
        ),
        "signature": (bytes(flipped), "The key that it has did not sign it."),
        "another signer": (
            phone.registration(sub, own.public, bytes(16), other.sign),
            "The key that it has did not sign it.",
        ),
        "another kid": (
            cose.sign(REGISTRATION, other.public.kid, {"sub": sub, "cnf": own.public, "nonce": bytes(16)}, own.sign),
            "The key that it has did not sign it.",
        ),
        "no point": (
            phone.registration(sub, own.public, bytes(16), own.sign).replace(own.public.y, bytes(32)),
            "A box would say claims.",
        ),
        "another subject": (lee.registration(), "It is for another user."),
        "another customer's subject": (
            phone.registration("00000000-0000-0000-0000-000000000000", own.public, bytes(16), own.sign),
            "It is for another user.",
        ),
    }


def test_what_is_no_registration(alice: Person) -> None:
    kim, lee = signed_in(alice), signed_in(alice)
    for name, (data, why) in registrations(kim, lee).items():
        answer = kim.call("PUT", PATH, {"registration": b64(data), "name": "Phone"})
        assert (answer.status_code, answer.text) == (400, f"{WRONG} {why}"), name
    assert listed(kim) == []


def test_what_is_no_base64url(alice: Person) -> None:
    kim = signed_in(alice)
    good = b64(kim.registration())
    for text in (good + "=", good + "==", good[:-1] + "!", good + "\n", " " + good, good.replace("_", "/") + "+/", None,
                 5, [good], {}, "A" * 2_001, good[:4] + "\0" + good[5:]):  # fmt: skip
        refused(kim.call("PUT", PATH, {"registration": text, "name": "Phone"}), 400, WRONG)


def test_a_registration_is_a_grant(alice: Person) -> None:
    """A member that is not known is refused: who misspells what protects a key has not protected it."""
    kim = signed_in(alice)
    good = {"registration": b64(kim.registration()), "name": "Phone"}
    for body in (good | {"protektion": "SecureElement"}, good | {"protection": "secureElement"}, good | {"name": ""},
                 good | {"name": " "}, good | {"name": "x" * 101}, good | {"name": None}, {"name": "Phone"},
                 {"registration": good["registration"]}, [good], "x", None):  # fmt: skip
        answer = kim.call("PUT", PATH, body) if body is not None else kim.call("PUT", PATH, content=b"null")
        assert answer.status_code in (400, 415), (body, answer.text)
    for type_ in ("text/plain", "application/cbor", "application/x-www-form-urlencoded"):
        answer = kim.call("PUT", PATH, content=b"{}", headers={"Content-Type": type_})
        assert answer.status_code == 415, answer.text
    assert listed(kim) == []


def test_a_key_is_one_user_s(alice: Person, bob: Person) -> None:
    kim, lee = driver(alice), signed_in(alice)
    lee.key = kim.key
    refused(lee.call("PUT", PATH, {"registration": b64(lee.registration()), "name": "Phone"}), 409, OTHERS)
    refused(
        lee.call("PUT", PATH, {"registration": b64(kim.registration()), "name": "Phone"}),
        400,
        f"{WRONG} It is for another user.",
    )
    his = signed_in(bob)
    his.key = kim.key
    his.register()  # another customer is not told
    done(kim.call("DELETE", f"{PATH}/{kim.id}"))
    lee.register()


def test_a_user_has_so_many_phones(alice: Person, dsn: str, settings: Settings) -> None:
    kim = signed_in(alice)
    with RunningServer(settings.model_copy(update={"sdk_devices": 2}), dsn, worker=False) as small:
        headers = {"Authorization": f"Bearer {token_for(kim, small)}"}

        def register(name: str) -> httpx.Response:
            kim.key = PrivateKey.generate()
            body = {"registration": b64(kim.registration()), "name": name}
            return alice.client.put(f"{small.url}/v3{PATH}", json=body, headers=headers)

        assert [register(name).status_code for name in ("First", "Second")] == [200, 200]
        refused(register("Third"), 409, "The user has 2 devices already.")
        done(alice.delete(f"/users/{kim.user}/devices/{listed(kim)[0]['id']}"))
        assert register("Third").status_code == 200
    assert [one["name"] for one in listed(kim)] == ["Second", "Third"]


def token_for(kim: Phone, server: RunningServer) -> str:
    """A token of that server: its address is the issuer."""
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
    put(alice, group, "userId", kim.user)
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


def test_removed_while_its_keys_are_out(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    assert kim.keys(box)
    done(kim.call("DELETE", f"{PATH}/{kim.id}"))
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 404, NO_DEVICE)
    kim.register()
    first = kim.keys(box)
    kim.fetch()
    assert kim.keys(box) != first
