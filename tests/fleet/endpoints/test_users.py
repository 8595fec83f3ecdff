"""Users: persons shared between customers, and their memberships."""

from __future__ import annotations

import itertools
import os
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from keyrack.core.settings import Settings
from tests.core.test_addresses import folded_characters
from tests.support.people import Person, Town, done, refused, web
from tests.support.servers import RunningServer, Sql, eventually

NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."
SAME = "A user with the same emailAddress already exists."
NEITHER = "Invalid emailAddress and userId. One valid parameter is required."
NOBODY = "Unable to find a user for the given parameters."
NOT_HERE = "Unable to find a user for the given parameters which is assigned to the given customerId."
ALREADY = "The user is already assigned to the customer."
DATA = {"firstName": "Uma", "lastName": "User"}
MEMBERSHIP = "/users/assignments/customers"

_numbers = itertools.count(1)


def address() -> str:
    return f"someone{next(_numbers)}.{os.getpid()}@example.com"


# Create


def test_create_an_anonymous_user(alice: Person) -> None:
    email = address()
    answer = alice.put("/users", {"emailAddress": email, "userData": DATA})
    assert answer.status_code == 201
    id = answer.json()["id"]
    assert answer.json() == {"id": id, "password": None}
    read = alice.get(f"/users/{id}")
    assert (read.status_code, read.json()) == (200, {"id": id, "emailAddress": email, "userData": DATA})


@pytest.mark.parametrize("members", [{"type": None}, {"type": "Anonymous"}, {"password": None}, {"password": "x"}])
def test_a_user_is_anonymous_by_default(alice: Person, sql: Sql, members: dict[str, Any]) -> None:
    answer = alice.put("/users", {"emailAddress": address(), "userData": DATA, **members})
    assert (answer.status_code, answer.json()["password"]) == (201, None)
    row = sql.rows("select type, password_hash from person where user_id = $1", answer.json()["id"])
    assert tuple(row[0]) == ("Anonymous", None)


def test_a_normal_user_without_a_password_gets_a_generated_one(alice: Person, sql: Sql) -> None:
    passwords: set[str] = set()
    for members in ({}, {"password": None}, {"password": ""}):
        answer = alice.put("/users", {"emailAddress": address(), "userData": DATA, "type": "Normal", **members})
        assert answer.status_code == 201
        password = answer.json()["password"]
        assert len(password) >= 12
        passwords.add(password)
        hashed = sql.value("select password_hash from person where user_id = $1", answer.json()["id"])
        assert PasswordHasher().verify(hashed, password)
        assert password not in alice.get(f"/users/{answer.json()['id']}").text
    assert len(passwords) == 3


def test_a_normal_user_with_a_password_keeps_it(alice: Person, sql: Sql) -> None:
    body = {"emailAddress": address(), "userData": DATA, "type": "Normal", "password": "of my own"}
    answer = alice.put("/users", body)
    assert (answer.status_code, answer.json()["password"]) == (201, None)
    hashed = sql.value("select password_hash from person where user_id = $1", answer.json()["id"])
    assert hashed.startswith("$argon2id$")
    assert PasswordHasher().verify(hashed, "of my own")


@pytest.mark.parametrize(
    "text",
    ["driver@depot.test", "driver@fleet.local", "a@gate.home.arpa", "d" * 64 + "@fleet.test", "ü" * 32 + "@fleet.test"],
)
def test_addresses_of_private_networks_are_valid(alice: Person, text: str) -> None:
    answer = alice.put("/users", {"emailAddress": text, "userData": DATA, "type": "Anonymous"})
    assert answer.status_code == 201, answer.text
    assert alice.get(f"/users/{answer.json()['id']}").json()["emailAddress"] == text


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ({"emailAddress": "a@b", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a..b@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "Uma <a@example.org>", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@[127.0.0.1]", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a" * 65 + "@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "ü" * 33 + "@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@local", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a" * 243 + "@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "\u3000", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@example.org", "userData": DATA | {"firstName": "\x1f"}}, "firstName"),
        ({"emailAddress": "a@example.org", "userData": DATA | {"lastName": "\u200b\ufeff"}}, "lastName"),
        ({"userData": DATA}, "emailAddress"),
        ({"emailAddress": None, "userData": DATA}, "emailAddress"),
        ({"emailAddress": "", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "nobody", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@b@c", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a b@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a\0@example.org", "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@example.org\0", "userData": DATA}, "emailAddress"),
        ({"emailAddress": 5, "userData": DATA}, "emailAddress"),
        ({"emailAddress": "a@example.org"}, "userData"),
        ({"emailAddress": "a@example.org", "userData": None}, "userData"),
        ({"emailAddress": "a@example.org", "userData": "Uma User"}, "userData"),
        ({"emailAddress": "a@example.org", "userData": []}, "userData"),
        ({"emailAddress": "a@example.org", "userData": {}}, "firstName and lastName"),
        ({"emailAddress": "a@example.org", "userData": {"firstName": None, "lastName": " "}}, "firstName and lastName"),
        ({"emailAddress": "a@example.org", "userData": {"lastName": "User"}}, "firstName"),
        ({"emailAddress": "a@example.org", "userData": {"firstName": "", "lastName": "User"}}, "firstName"),
        ({"emailAddress": "a@example.org", "userData": {"firstName": "Uma"}}, "lastName"),
        ({"emailAddress": "a@example.org", "userData": {"firstName": "Uma", "lastName": "U\0"}}, "lastName"),
        ({"emailAddress": "a@example.org", "userData": DATA, "type": "normal"}, "type"),
        ({"emailAddress": "a@example.org", "userData": DATA, "type": 5}, "type"),
        ({"emailAddress": "a@example.org", "userData": DATA, "password": 5}, "password"),
        ({}, "emailAddress and userData"),
    ],
)
def test_missing_and_invalid_members_are_named(alice: Person, body: dict[str, Any], members: str) -> None:
    came = "'normal'" if body.get("type") == "normal" else "5"
    right = f" `type` must be 'Normal' or 'Anonymous', but is {came}." if members == "type" else ""
    refused(alice.put("/users", body), 400, f"Couldn't create user. No valid {members} provided.{right}")


def test_an_address_is_unique_across_customers_ignoring_case(alice: Person, bob: Person) -> None:
    email = address()
    alice.user(email)
    for person in (alice, bob):
        refused(person.put("/users", {"emailAddress": email.upper(), "userData": DATA}), 409, SAME)


def test_an_address_is_trimmed_and_otherwise_unchanged(alice: Person, bob: Person) -> None:
    """A8: white space around an address does not belong to it, in every request."""
    email = address().replace("someone", "Jörg.O'Hara+Fleet")
    answer = alice.put("/users", {"emailAddress": f"\u00a0 {email}\r\n\u200b", "userData": DATA})
    id = answer.json()["id"]
    assert alice.get(f"/users/{id}").json()["emailAddress"] == email
    refused(bob.put("/users", {"emailAddress": f"{email}\t", "userData": DATA}), 409, SAME)
    capitals = email.upper().replace("Ö", "ö")
    done(bob.put(MEMBERSHIP, {"emailAddress": f"\ufeff{capitals} "}))
    done(bob.delete(MEMBERSHIP, {"emailAddress": f" {email}"}))


def test_equivalent_spellings_of_an_address_find_one_user(alice: Person, bob: Person) -> None:
    number = next(_numbers)
    user = alice.user(f"jürgen{number}@bücher.example")
    spellings = [
        f"ju\u0308rgen{number}@bu\u0308cher.example", f"JüRGEN{number}@BÜCHER.example",
        f"jürgen{number}@xn--bcher-kva.example", f"jürgen{number}@ｂücher。example",
    ]  # fmt: skip
    for spelling in spellings:
        refused(bob.put("/users", {"emailAddress": spelling, "userData": DATA}), 409, SAME)
        done(bob.put(MEMBERSHIP, {"emailAddress": spelling}))
        done(bob.delete(MEMBERSHIP, {"emailAddress": spelling}))
    other = bob.put("/users", {"emailAddress": f"ｊürgen{number}@bücher.example", "userData": DATA})
    assert other.status_code == 201 and other.json()["id"] != user
    for domain in ("☃.example", "xn--zz.example", "bücher＠.example"):
        answer = bob.put("/users", {"emailAddress": f"kim@{domain}", "userData": DATA})
        assert (answer.status_code, "No valid emailAddress provided." in answer.text) == (400, True)


def test_no_other_address_finds_a_user(alice: Person, bob: Person) -> None:
    """No character of a local part is folded to an ASCII character."""
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    name = f"{alphabet}{next(_numbers)}"
    user = alice.user(f"{name}@example.com")
    folded = [(character, text) for character, text in folded_characters() if text in alphabet]
    assert {"\u0130", "\u212a", "ｋ"} <= {character for character, _ in folded}
    for character, text in folded:
        answer = bob.put(MEMBERSHIP, {"emailAddress": f"{name.replace(text, character, 1)}@example.com"})
        assert (answer.status_code, answer.text) in ((404, NOBODY), (400, NEITHER)), f"U+{ord(character):04X}"
    done(bob.put(MEMBERSHIP, {"emailAddress": f"{name.upper()}@ｅｘａｍｐｌｅ.com"}))
    assert bob.get(f"/users/{user}").status_code == 200


@pytest.mark.parametrize(
    "stored", ["old@intranet", "a..b@example.org", "\u200bhidden@example.org", "x" * 248 + "@b.de"]
)
def test_a_stored_address_that_is_no_longer_valid_still_works(
    alice: Person, bob: Person, sql: Sql, stored: str
) -> None:
    """A8: a stored address is returned, and found by exactly that address."""
    user = alice.user()
    sql.execute("update person set email_address = $2 where user_id = $1", user, stored)
    assert alice.get(f"/users/{user}").json()["emailAddress"] == stored
    done(bob.put(MEMBERSHIP, {"emailAddress": stored.upper()}))
    refused(bob.put(MEMBERSHIP, {"emailAddress": stored}), 409, ALREADY)
    done(bob.delete(MEMBERSHIP, {"emailAddress": stored}))
    sql.execute("delete from person where user_id = $1", user)


def test_a_blank_password_counts_as_missing(alice: Person) -> None:
    """A8: all endpoints share one definition of blank text."""
    answer = alice.put("/users", {"emailAddress": address(), "userData": DATA, "type": "Normal", "password": "\u00a0 "})
    assert len(answer.json()["password"]) >= 12


# Read


def test_users_are_listed_by_id(carol: Person) -> None:
    assert (carol.get("/users").status_code, carol.get("/users").json()) == (200, [])
    emails = [address() for _ in range(3)]
    ids = [carol.user(email) for email in emails]
    assert carol.get("/users").json() == [
        {"id": id, "emailAddress": email, "userData": DATA} for id, email in zip(ids, emails, strict=True)
    ]


def test_another_customer_sees_no_user(alice: Person, bob: Person) -> None:
    user = alice.user()
    assert user not in [row["id"] for row in bob.get("/users").json()]
    refused(bob.get(f"/users/{user}"), 404, NO_USER)
    refused(bob.get(f"/users/{user}/assignments"), 404, NO_USER)


@pytest.mark.parametrize("id", ["2147483647", "0", "-1", "2147483648", "assignments", "%00"])
@pytest.mark.parametrize("rest", ["", "/assignments"])
def test_a_missing_user_gets_404(alice: Person, id: str, rest: str) -> None:
    refused(alice.get(f"/users/{id}{rest}"), 404, NO_USER)


def test_the_assignments_of_a_user(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    answer = alice.get(f"/users/{user}/assignments")
    assert (answer.status_code, answer.json()) == (200, [])
    assignment = alice.assignment(car, user, end="2026-02-01T00:00:00Z")
    assert alice.get(f"/users/{user}/assignments").json() == [
        {"id": assignment, "carId": car, "start": "2026-01-01T08:00:00Z", "end": "2026-02-01T00:00:00Z"}
    ]


# Membership in a customer


@pytest.fixture(scope="module")
def other_fleet(alice: Person, town: Town) -> Person:
    """Another customer of alice's manager."""
    return town.another_fleet(alice)


@pytest.mark.parametrize("by", ["userId", "emailAddress"])
def test_assign_and_unassign_a_user(alice: Person, other_fleet: Person, bob: Person, by: str) -> None:
    email = address()
    user = alice.user(email)
    body = {"userId": user} if by == "userId" else {"emailAddress": email.title()}
    other = "emailAddress" if by == "userId" else "userId"
    for person in (other_fleet,) if by == "userId" else (other_fleet, bob):
        done(person.put(MEMBERSHIP, body))
        assert person.get(f"/users/{user}").json() == {"id": user, "emailAddress": email, "userData": DATA}
        refused(person.put(MEMBERSHIP, {**body, other: None}), 409, ALREADY)
        refused(alice.put(MEMBERSHIP, body), 409, ALREADY)
        done(person.delete(MEMBERSHIP, body))
        refused(person.get(f"/users/{user}"), 404, NO_USER)
        assert alice.get(f"/users/{user}").status_code == 200


def test_an_id_finds_no_person_of_other_customers(alice: Person, bob: Person) -> None:
    """A7: a person of another manager's customer gets the answer of an unknown id, byte for byte."""
    user = alice.user()
    for call, text in ((bob.put, NOBODY), (bob.delete, NOT_HERE)):
        hers, nobodys = call(MEMBERSHIP, {"userId": user}), call(MEMBERSHIP, {"userId": 2147483647})
        refused(hers, 404, text)
        assert (hers.content, hers.headers["content-type"]) == (nobodys.content, nobodys.headers["content-type"])
    refused(bob.get(f"/users/{user}"), 404, NO_USER)


def test_a_manager_that_loses_a_customer_no_longer_finds_its_persons(alice: Person, town: Town, sql: Sql) -> None:
    """A7: an id finds a person only while the manager has a customer of that person."""
    lost = town.another_fleet(alice)
    first, second = lost.user(), lost.user()
    done(alice.put(MEMBERSHIP, {"userId": first}))
    sql.execute("delete from manager_customer where customer_id = $1", lost.customer)
    eventually(lambda: lost.get("/users").status_code == 404, "the loss")
    refused(alice.put(MEMBERSHIP, {"userId": second}), 404, NOBODY)
    refused(alice.put(MEMBERSHIP, {"userId": first}), 409, ALREADY)


def test_a_person_without_a_customer_is_found_only_by_address(alice: Person) -> None:
    """A7: a person without a customer is kept, and found by address."""
    email = address()
    user = alice.user(email)
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    refused(alice.put(MEMBERSHIP, {"userId": user}), 404, NOBODY)
    refused(alice.put("/users", {"emailAddress": email, "userData": DATA}), 409, SAME)
    done(alice.put(MEMBERSHIP, {"emailAddress": email}))
    assert alice.get(f"/users/{user}").json()["emailAddress"] == email


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"userId": None},
        {"userId": None, "emailAddress": None},
        {"emailAddress": ""},
        {"emailAddress": "", "userId": None},
        {"emailAddress": "a@example.org", "userId": 1},
        {"emailAddress": "nonsense"},
        {"emailAddress": "no@body"},
        {"emailAddress": " "},
        {"emailAddress": "\u00a0\u200b"},
        {"emailAddress": " ", "userId": None},
        {"userId": 0},
        {"userId": -1},
        {"userId": 0, "emailAddress": " "},
    ],
)
def test_exactly_one_valid_identifier_is_required(alice: Person, method: str, body: dict[str, Any]) -> None:
    """A8: an invalid address or id gets 400, as in the table of conditions."""
    refused(alice.call(method, MEMBERSHIP, body), 400, NEITHER)


@pytest.mark.parametrize(("method", "what"), [("PUT", "assign user to"), ("DELETE", "unassign user from")])
@pytest.mark.parametrize("value", ["1", 1.5, True, [1]])
def test_a_user_id_of_the_wrong_type_is_rejected(alice: Person, method: str, what: str, value: Any) -> None:
    answer = alice.call(method, MEMBERSHIP, {"userId": value})
    refused(answer, 400, f"Couldn't {what} customer. No valid userId provided.")


@pytest.mark.parametrize("body", [{"userId": 2147483647}, {"emailAddress": "nobody@example.net"}])
def test_an_unknown_user_gets_404(alice: Person, body: dict[str, Any]) -> None:
    refused(alice.put(MEMBERSHIP, body), 404, NOBODY)
    refused(alice.delete(MEMBERSHIP, body), 404, NOT_HERE)


def test_a_user_outside_of_the_customer_cannot_be_removed(alice: Person, bob: Person) -> None:
    email = address()
    user = alice.user(email)
    refused(bob.delete(MEMBERSHIP, {"userId": user}), 404, NOT_HERE)
    refused(bob.delete(MEMBERSHIP, {"emailAddress": email}), 404, NOT_HERE)
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    refused(alice.delete(MEMBERSHIP, {"userId": user}), 404, NOT_HERE)


def test_removing_a_user_ends_only_the_assignments_of_that_customer(alice: Person, bob: Person, sql: Sql) -> None:
    email = address()
    user = alice.user(email)
    done(bob.put(MEMBERSHIP, {"emailAddress": email}))
    hers, his = alice.car_with_box(), bob.car_with_box()
    assignment, kept = alice.assignment(hers, user), bob.assignment(his, user)
    group = alice.group()
    done(alice.put(f"/groups/{group}/users", {"userId": user}))
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    eventually(lambda: alice.get(f"/cars/{hers}/assignments").json() == [], "the end of the assignment")
    ended = eventually(
        lambda: sql.rows(
            "select cause, state from operation where customer_id = $1 and assignment_id = $2"
            " and kind = 'DeleteAssignment' and state <> 'Pending'",
            alice.customer,
            assignment,
        ),
        "its outcome",
    )
    assert [tuple(row) for row in ended] == [("UserRemoved", "Succeeded")]
    assert alice.get(f"/groups/{group}/users").json() == []
    assert [row["id"] for row in bob.get(f"/users/{user}/assignments").json()] == [kept]


def test_lookups_of_persons_by_address_have_a_rate_limit(
    town: Town, dsn: str, settings: Settings, alice: Person
) -> None:
    """Ids find only users of the caller's own customers, and have no rate limit."""
    few = settings.model_copy(update={"user_lookups_per_hour": 1, "user_lookup_burst": 3})
    seeker, neighbour = town.person("a seeker"), town.person("a neighbour")
    there = address()
    assert alice.put("/users", {"emailAddress": there, "userData": DATA}).status_code == 201
    with RunningServer(few, dsn, worker=False) as server:

        def link(person: Person, **body: object) -> httpx.Response:
            return web().put(f"{server.url}/v3{MEMBERSHIP}", json=body, headers=person.headers)

        assert [link(seeker, emailAddress=address()).status_code for _ in range(3)] == [404] * 3
        refused_now = link(seeker, emailAddress=there)
        assert refused_now.status_code == 429 and 0 < int(refused_now.headers["retry-after"]) <= 3_600
        assert link(seeker, emailAddress=address()).status_code == 429, "the same, whether there is such a person"
        assert link(seeker, userId=1).status_code == 404
        assert link(neighbour, emailAddress=there).status_code == 204
