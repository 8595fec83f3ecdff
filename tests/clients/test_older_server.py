"""The client packages with a server of an earlier commit.

Both packages do there what that server can. They reject what it cannot keep, such as `exclusive` and `externalId`.

`make test-clients` runs this file, because the earlier server takes half a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from keyrack_client import Keyrack, Password, errors, verify

from tests.clients import older_server
from tests.clients.test_typescript_sources import MODULE
from tests.clients.tools import TOOLS
from tests.clients.typescript_client import run
from tests.support.servers import DEADLINE, eventually
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` runs it: an earlier server takes half a minute")
BEGIN = datetime(2035, 5, 1, 8, tzinfo=UTC)
CAR_WITH_BOX = "products/any(p: p/type eq 'vendor Box')"


@pytest.fixture(scope="module")
def older() -> Iterator[dict[str, str]]:
    with older_server.running() as environment:
        yield environment


@pytest.fixture
def keyrack(older: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyrack]:
    for name, value in older.items():
        monkeypatch.setenv(name, value)
    with Keyrack.from_env() as client:
        yield client


def bookable(keyrack: Keyrack, day: int) -> dict[str, Any]:
    """A booking of a car with a box. Those of different days do not overlap."""
    car, user = keyrack.cars.list(filter=CAR_WITH_BOX).first(), keyrack.users.list().first()
    assert car is not None and user is not None
    start = BEGIN + timedelta(days=day)
    return {"carId": car["id"], "userId": user["id"], "start": start, "end": start + timedelta(hours=1)}


def test_lists_bookings_and_changes(keyrack: Keyrack) -> None:
    ids = [row["id"] for row in keyrack.cars.list(size=7)]
    assert len(ids) > 7 and ids == sorted(set(ids))
    assert keyrack.request("GET", "/cars", params={"$count": "true", "$top": 0}).headers["X-Total-Count"] == str(
        len(ids)
    )
    position = keyrack.newest_position()
    booked = keyrack.assignments.create(**bookable(keyrack, 1), key="older-1", wait=DEADLINE)
    assert booked["state"] == "Succeeded" and booked["assignmentId"] is not None
    assert keyrack.assignments.create(**bookable(keyrack, 1), key="older-1", wait=DEADLINE)["id"] == booked["id"]
    keyrack.assignments.delete(booked["assignmentId"], wait=DEADLINE)

    def kinds() -> list[str]:
        changes = [change for change, _ in keyrack.changes(position, wait=None)]
        return [row["kind"] for row in changes if row["resourceId"] == str(booked["assignmentId"])]

    eventually(lambda: kinds() == ["assignment.created", "assignment.deleted"], "both changes")


def test_webhooks_are_verified(keyrack: Keyrack) -> None:
    with Receiver() as receiver:
        webhook = keyrack.webhooks.create(url=receiver.url, kinds=["assignment.*"])
        booked = keyrack.assignments.create(**bookable(keyrack, 2), wait=DEADLINE)
        eventually(lambda: receiver.got, "the webhook")
        message: Any = verify(receiver.got[0].headers, receiver.got[0].body, webhook["signingSecret"])
        assert (message["type"], message["operationId"]) == ("assignment.created", booked["id"])
        keyrack.webhooks.delete(webhook["id"])


Write = Callable[[Keyrack], object]
LATER: dict[str, tuple[Write, type[errors.ApiError], str]] = {
    "exclusive": (
        lambda client: client.assignments.create(**bookable(client, 3), exclusive=True),
        errors.UnknownMembers, "exclusive",
    ),
    "reference of a booking": (
        lambda client: client.assignments.create(**bookable(client, 3), externalId="B-1"),
        errors.UnknownMembers, "externalId",
    ),
    "reference of a car": (
        lambda client: client.cars.create(name="Lost", externalId="V-1"), errors.UnknownMembers, "externalId",
    ),
    "metadata": (
        lambda client: client.groups.create(name="Lost", metadata={"a": "b"}), errors.UnknownMembers, "metadata",
    ),
    "patch": (lambda client: client.cars.update(1, externalId="V-1"), errors.InvalidMembers, "externalId"),
    "resource that is not changed there": (
        lambda client: client.users.update(1, externalId="E-1"), errors.MethodNotAllowed, "GET",
    ),
    "free cars": (
        lambda client: client.cars.available(BEGIN, BEGIN + timedelta(hours=1)).first(),
        errors.InvalidQuery, "Query option",
    ),
    "filter": (
        lambda client: client.cars.list(filter="externalId eq 'V-1'").first(), errors.InvalidQuery, "externalId",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_what_the_server_cannot_keep_is_an_error(name: str, keyrack: Keyrack, older: dict[str, str]) -> None:
    """Also for a person, whose requests that server reads leniently."""
    call, error, named = LATER[name]
    login = Password(older["KEYRACK_USERNAME"], older["KEYRACK_PASSWORD"])
    options = {"api_key": older["KEYRACK_API_KEY"], "customer_id": older["KEYRACK_CUSTOMER_ID"]}
    with Keyrack(older["KEYRACK_URL"], login=login, **options) as person:
        for client in (keyrack, person):
            count = len(list(client.assignments.list()))
            with pytest.raises(error, match=named):
                call(client)
            assert len(list(client.assignments.list())) == count
            assert keyrack.cars.list(filter="name eq 'Lost'").first() is None
            assert keyrack.groups.list(filter="name eq 'Lost'").first() is None


def test_an_item_of_a_batch_is_rejected(keyrack: Keyrack) -> None:
    body: Any = {"name": "Lost", "externalId": "V-1"}
    done = keyrack.batch({"kind": "cars", "items": [{"op": "create", "body": body}]})
    assert [(row["status"], row.get("code")) for row in done["results"]] == [(400, "unknown-members")]
    assert keyrack.cars.list(filter="name eq 'Lost'").first() is None


def test_a_request_of_the_caller_names_what_was_ignored(keyrack: Keyrack) -> None:
    """`request` sends what it is given.

    So the caller looks at the header, as the README says.
    """
    answer = keyrack.request("PUT", "/cars", json={"name": "Raw", "externalId": "V-2"})
    assert answer.headers["Keyrack-Ignored"] == "externalId"
    strict = {"Prefer": "handling=strict"}
    with pytest.raises(errors.UnknownMembers):
        keyrack.request("PUT", "/cars", json={"name": "Raw", "externalId": "V-3"}, headers=strict)


def test_the_typescript_client(keyrack: Keyrack, older: dict[str, str]) -> None:
    wanted = bookable(keyrack, 4)
    given = {
        "url": older["KEYRACK_URL"],
        "apiKey": older["KEYRACK_API_KEY"],
        "customerId": int(older["KEYRACK_CUSTOMER_ID"]),
        "clientId": older["KEYRACK_CLIENT_ID"],
        "clientSecret": older["KEYRACK_CLIENT_SECRET"],
        **wanted,
        "start": wanted["start"].isoformat(),
        "end": wanted["end"].isoformat(),
    }
    seen = run("older_server.ts", MODULE, given)
    assert seen == {
        "cars": [row["id"] for row in keyrack.cars.list()],
        "booked": ["Succeeded", "2035-05-05T08:00:00Z"],
        "change": "assignment.created",
        "exclusive": [400, "unknown-members", "/exclusive"],
        "reference": [400, "unknown-members", "/externalId"],
        "metadata": [400, "unknown-members", "/metadata"],
        "patch": [400, "invalid-members", "/0/path"],
        "available": [400, "invalid-query", None],
        "item": [[400, "unknown-members"]],
        "lost": [],
    }
