"""Groups, and the four kinds of items in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.people import Person, done, refused

NO_GROUP = "Unable to find a group for the given groupId which is assigned to the given customerId."
SAME_NAME = "A group with the same name already exists."
IN_USE = "The group still has relations. Delete all relations first."


@dataclass(frozen=True)
class Kind:
    """A kind of item in groups."""

    name: str
    make: Callable[[Person], int]
    members: list[str]  # the members of its rows

    @property
    def member(self) -> str:
        return f"{self.name}Id"

    @property
    def missing(self) -> str:
        return f"Unable to find a {self.name} for the given {self.name}Id which is assigned to the given customerId."

    @property
    def absent(self) -> str:
        return f"Unable to find a {self.name} for the given {self.name}Id which is assigned to the given groupId."

    def path(self, group: object) -> str:
        return f"/groups/{group}/{self.name}s"


KINDS = [
    Kind("car", Person.car, ["id", "name", "description", "vin", "licensePlate", "brand", "model"]),
    Kind("user", Person.user, ["id", "emailAddress", "userData"]),
    Kind("service", Person.service, ["id", "name", "isTerminated", "terminationDate", "terminationCause"]),
    Kind(
        "product",
        Person.product,
        ["id", "uniqueId", "serialNumber", "sapNumber", "dongleTerminationTimeStamp", "type"],
    ),
]
of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


# The group itself


def test_create_a_group(carol: Person) -> None:
    assert (carol.get("/groups").status_code, carol.get("/groups").json()) == (200, [])
    answer = carol.put("/groups", {"name": "Night shift"})
    assert answer.status_code == 201
    id = answer.json()["id"]
    assert answer.json() == {"id": id}
    second = carol.group("Day shift")
    assert carol.get("/groups").json() == [{"id": id, "name": "Night shift"}, {"id": second, "name": "Day shift"}]


@pytest.mark.parametrize("body", [{}, {"name": None}, {"name": ""}, {"name": " \n"}, {"name": 5}, {"name": "a\0"}])
def test_a_missing_name_is_rejected(alice: Person, body: dict[str, Any]) -> None:
    refused(alice.put("/groups", body), 400, "Couldn't create group. No valid name provided.")


def test_a_name_has_at_most_250_characters(alice: Person) -> None:
    assert alice.put("/groups", {"name": "🚗" * 250}).status_code == 201
    answer = alice.put("/groups", {"name": "🚗" * 251})
    assert answer.status_code == 400
    assert answer.text.startswith("Couldn't create group. No valid name provided.")


def test_a_group_name_is_unique_within_a_customer(alice: Person, bob: Person) -> None:
    alice.group("Only one")
    refused(alice.put("/groups", {"name": "Only one"}), 409, SAME_NAME)
    bob.group("Only one")


def test_rename_a_group(alice: Person) -> None:
    group = alice.group("Before")
    done(alice.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "After"}]))
    assert {"id": group, "name": "After"} in alice.get("/groups").json()
    done(alice.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "x" * 250}]))
    assert {"id": group, "name": "x" * 250} in alice.get("/groups").json()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"value": None}, "Couldn't update group. No valid name provided."),
        ({}, "Couldn't update group. No valid name provided. A `replace` step must have a `value`."),
        ({"value": ""}, "Couldn't update group. No valid name provided."),
        ({"value": " \t"}, "Couldn't update group. No valid name provided."),
        ({"value": "x" * 251}, "Couldn't update group. The name must not be longer than 250 characters."),
        ({"value": "x" * 5000}, "Couldn't update group. The name must not be longer than 250 characters."),
        ({"value": 5}, "Couldn't update group. No valid value provided."),
        ({"value": "a\0"}, "Couldn't update group. No valid value provided."),
        ({"op": "remove"}, "Couldn't update group. No valid op provided. `op` must be 'replace', but is 'remove'."),
        (
            {"path": "/id", "value": "5"},
            "Couldn't update group. No valid path provided."
            " `path` must be '/name', '/externalId' or '/metadata', but is '/id'.",
        ),
    ],
)
def test_an_invalid_change_of_a_group_name_is_rejected(alice: Person, step: dict[str, Any], text: str) -> None:
    group = alice.group()
    before = alice.get("/groups").json()
    refused(alice.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", **step}]), 400, text)
    assert alice.get("/groups").json() == before


def test_a_group_name_that_is_taken_gets_409(alice: Person) -> None:
    alice.group("Taken")
    group = alice.group("Free")
    refused(alice.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "Taken"}]), 409, SAME_NAME)
    done(alice.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "Free"}]))


def test_a_missing_group_gets_404(alice: Person) -> None:
    for id in ("2147483647", "0", "-1", "2147483648", "x"):
        refused(alice.patch(f"/groups/{id}", [{"op": "replace", "path": "/name", "value": "A"}]), 404, NO_GROUP)
        refused(alice.delete(f"/groups/{id}"), 404, NO_GROUP)


def test_delete_a_group(alice: Person) -> None:
    group = alice.group("Short-lived")
    done(alice.delete(f"/groups/{group}"))
    refused(alice.delete(f"/groups/{group}"), 404, NO_GROUP)
    assert group not in [row["id"] for row in alice.get("/groups").json()]
    alice.group("Short-lived")


def test_another_customer_sees_no_group(alice: Person, bob: Person) -> None:
    group = alice.group("Hers")
    assert group not in [row["id"] for row in bob.get("/groups").json()]
    refused(bob.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "His"}]), 404, NO_GROUP)
    refused(bob.delete(f"/groups/{group}"), 404, NO_GROUP)
    assert {"id": group, "name": "Hers"} in alice.get("/groups").json()


# Items of a group


@of_every_kind
def test_an_item_is_added_to_a_group_and_removed(alice: Person, kind: Kind) -> None:
    group, first, second = alice.group(), kind.make(alice), kind.make(alice)
    answer = alice.get(kind.path(group))
    assert (answer.status_code, answer.json()) == (200, [])
    for item in (second, first):
        done(alice.put(kind.path(group), {kind.member: item}))
    rows = alice.get(kind.path(group)).json()
    assert [row["id"] for row in rows] == [first, second]
    assert list(rows[0]) == kind.members
    done(alice.delete(f"{kind.path(group)}/{first}"))
    assert [row["id"] for row in alice.get(kind.path(group)).json()] == [second]


@of_every_kind
def test_an_item_may_be_in_several_groups(alice: Person, kind: Kind) -> None:
    one, other, item = alice.group(), alice.group(), kind.make(alice)
    for group in (one, other):
        done(alice.put(kind.path(group), {kind.member: item}))
    done(alice.delete(f"{kind.path(one)}/{item}"))
    assert alice.get(kind.path(one)).json() == []
    assert [row["id"] for row in alice.get(kind.path(other)).json()] == [item]


@of_every_kind
def test_an_item_that_is_already_in_the_group_gets_409(alice: Person, kind: Kind) -> None:
    group, item = alice.group(), kind.make(alice)
    done(alice.put(kind.path(group), {kind.member: item}))
    answer = alice.put(kind.path(group), {kind.member: item})
    refused(answer, 409, f"The {kind.name} is already assigned to the group.")


@of_every_kind
@pytest.mark.parametrize("value", ["absent", None, "1", 1.5, True, [1]])
def test_an_invalid_item_id_is_rejected(alice: Person, kind: Kind, value: Any) -> None:
    body = {} if value == "absent" else {kind.member: value}
    text = f"Couldn't assign {kind.name} to group. No valid {kind.member} provided."
    refused(alice.put(kind.path(alice.group()), body), 400, text)


@of_every_kind
def test_a_missing_item_gets_404(alice: Person, kind: Kind) -> None:
    group = alice.group()
    for id in (2147483647, 0, -1):
        refused(alice.put(kind.path(group), {kind.member: id}), 404, kind.missing)
        refused(alice.delete(f"{kind.path(group)}/{id}"), 404, kind.absent)


@of_every_kind
def test_items_of_a_missing_group_get_404(alice: Person, kind: Kind) -> None:
    item = kind.make(alice)
    for group in ("2147483647", "0", "-1", "99999999999", "x"):
        refused(alice.get(kind.path(group)), 404, NO_GROUP)
        refused(alice.put(kind.path(group), {kind.member: item}), 404, NO_GROUP)
        refused(alice.put(kind.path(group), {kind.member: 2147483647}), 404, NO_GROUP)
        refused(alice.delete(f"{kind.path(group)}/{item}"), 404, NO_GROUP)


@of_every_kind
def test_an_item_that_is_not_in_the_group_gets_404(alice: Person, kind: Kind) -> None:
    group, item = alice.group(), kind.make(alice)
    refused(alice.delete(f"{kind.path(group)}/{item}"), 404, kind.absent)


@of_every_kind
def test_a_group_with_items_cannot_be_deleted(alice: Person, kind: Kind) -> None:
    group, item = alice.group(), kind.make(alice)
    done(alice.put(kind.path(group), {kind.member: item}))
    refused(alice.delete(f"/groups/{group}"), 409, IN_USE)
    assert [row["id"] for row in alice.get(kind.path(group)).json()] == [item]
    done(alice.delete(f"{kind.path(group)}/{item}"))
    done(alice.delete(f"/groups/{group}"))


@of_every_kind
def test_items_and_groups_of_another_customer_get_404(alice: Person, bob: Person, kind: Kind) -> None:
    hers, his = alice.group(), bob.group()
    her_item, his_item = kind.make(alice), kind.make(bob)
    done(alice.put(kind.path(hers), {kind.member: her_item}))
    refused(bob.get(kind.path(hers)), 404, NO_GROUP)
    refused(bob.put(kind.path(hers), {kind.member: his_item}), 404, NO_GROUP)
    refused(bob.put(kind.path(hers), {kind.member: her_item}), 404, NO_GROUP)
    refused(bob.put(kind.path(his), {kind.member: her_item}), 404, kind.missing)
    refused(bob.delete(f"{kind.path(hers)}/{her_item}"), 404, NO_GROUP)
    refused(bob.delete(f"{kind.path(his)}/{her_item}"), 404, kind.absent)
    assert [row["id"] for row in alice.get(kind.path(hers)).json()] == [her_item]
    assert bob.get(kind.path(his)).json() == []
