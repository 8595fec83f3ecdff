"""Tenant isolation: a customer cannot even learn that another customer's id exists.

The cases are derived from the table of endpoints. Every place for an id in a path or body is a slot. Bob sends his own
ids in every slot but one. There, Alice's id must get byte for byte the response of an id that does not exist. A new
endpoint must register here how its rows are made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from keyrack.api.endpoint import Endpoint
from keyrack.core import secret_hashes
from keyrack.core.base64url import base64url
from keyrack.http.routes import ALL
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.link_messages import Enrol, EnrolledMessage
from keyrack.offline_keys.message_fields import ENTRY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.changelog.transparency.checkpoints import signed
from tests.http import offline_key_errors
from tests.http.test_contract import name, query_of
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.drivers import Booking, at, signed_in_driver
from tests.support.people import JOIN, Person
from tests.support.servers import NUMBERS, eventually
from tests.telemetry.endpoints.test_ingest import unit_of

Ids = dict[str, Any]

# Slots whose name does not end in "Id"
NAMES = {"serialNumber", "uniqueId", "emailAddress", "sdkKey"}
# Ids that belong to no customer, and an id that the caller chooses
OF_NOBODY = {"keyFormId", "externalId"}
# Values that a device makes for itself only
MADE = {"enrolment", "thumbprint"}
# Endpoints with two alternative identifiers
BY = {"PUT /users/assignments/customers", "DELETE /users/assignments/customers"}
# Users are shared by design: any customer may add a user by the address
SHARED = {("PUT /users/assignments/customers", "emailAddress")}
# A creation's new names refer to nothing
CREATIONS = {"PUT /users", "PUT /managers"}

NOWHERE: Mapping[str, Any] = {
    "operationId": str(uuid.uuid4()),
    "serialNumber": "nobody's",
    "uniqueId": "nobody's",
    "emailAddress": "nobody@example.net",
    "sdkKey": "nobody's",
    "deviceId": base64url(bytes(32)),
}


def schema(endpoint: Endpoint) -> dict[str, Any]:
    return {} if endpoint.body_adapter is None else endpoint.body_adapter.json_schema()


def fixed_paths(schema: Ids) -> list[str]:
    """The paths of a patch, without those of keys of metadata."""
    fixed = schema["anyOf"][0] if "anyOf" in schema else schema
    return fixed.get("enum", [fixed.get("const")])


def slots(endpoint: Endpoint) -> list[str]:
    """Return the places for tenants' ids in the endpoint's path and body."""
    if name(endpoint) in CREATIONS:
        return []
    whole = schema(endpoint)
    members = list(whole.get("properties", {}))
    if whole.get("type") == "array":  # a patch: the members that its steps may replace
        step = next(iter(whole["$defs"].values()))["properties"]["path"]
        members = [path[1:] for path in fixed_paths(step)]
    return [
        slot
        for slot in dict.fromkeys([*endpoint.parameters, *members])
        if (slot.endswith("Id") or slot in NAMES) and slot not in OF_NOBODY
    ]


WITH_SLOTS = [endpoint for endpoint in ALL if slots(endpoint) and endpoint.auth.has_token]


# Makers of the rows that slots refer to


def webhook(person: Person) -> int:
    answer = person.put("/webhooks", {"url": "https://hooks.invalid/keyrack"})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def operation(person: Person) -> str:
    body = {"carId": person.car_with_box(), "userId": person.user(), "start": "2026-01-01T00:00:00Z"}
    return person.put("/assignments", body).headers["Operation-Id"]


def event(person: Person) -> int:
    """An event whose number the neighbour has not reached. Each customer has a separate counter."""
    person.sql.execute(
        "update event_counter set last_id = greatest(last_id, $1 % 1000000 * 1000) where customer_id = $1",
        person.customer,
    )
    return person.event(person.car(), person.user())


def change(person: Person) -> int:
    """A change whose number others have not reached. Each customer has a separate counter."""
    for _ in range(20 if person.name == "alice" else 0):
        person.car()
    return signed(person)


def client(person: Person) -> int:
    return person.put("/clients", {"name": "Client", "scopes": ["cars:read"]}).json()["id"]


def member_of(person: Person) -> int:
    """Another manager of the person's customer."""
    name = f"colleague {next(NUMBERS)} of {person.customer}"
    return person.sql.value(
        "with m as (insert into manager (username, password_hash) values ($1, 'x') returning manager_id),"
        " c as (insert into manager_customer (customer_id, manager_id) select $2, manager_id from m"
        " returning customer_id, manager_id),"
        " r as (insert into manager_role (customer_id, manager_id, role) select *, 'Viewer' from c)"
        " select manager_id from m",
        name, person.customer,
    )  # fmt: skip


def invitation(person: Person) -> int:
    address = f"invited.{next(NUMBERS)}.{person.customer}@example.com"
    return person.put("/managers", {"emailAddress": address, "role": "Viewer"}).json()["id"]


MAKE: Mapping[str, Callable[[Person], Any]] = {
    "carId": lambda person: person.car(),
    "userId": lambda person: person.user(),
    "groupId": lambda person: person.group(),
    "productId": lambda person: person.product(),
    "serviceId": lambda person: person.service(),
    "assignmentId": lambda person: person.assignment(person.car_with_box(), person.user()),
    "eventId": event,
    "webhookId": webhook,
    "clientId": client,
    "managerId": member_of,
    "invitationId": invitation,
    "operationId": operation,
    "changeId": change,
    "requestId": lambda person: Booking(person, signed_in_driver(person)).ask(kind="extend", end=at(6)).json()["id"],
}


def installed(person: Person, kind: str = "Box") -> Ids:
    car = person.car()
    return named(person, person.box_in(car, kind)) | {"carId": car}


def told(person: Person) -> Ids:
    """A car whose unit has reported data."""
    unit = unit_of(person)
    unit.tell(1)
    return {"carId": unit.car}


def installable(person: Person) -> Ids:
    product = person.product()
    person.service(product)
    return named(person, product) | {"carId": person.car()}


def pairable(person: Person) -> Ids:
    return named(person, person.product()) | {"serviceId": person.service()}


def paired(person: Person) -> Ids:
    product = person.product()
    return named(person, product) | {"serviceId": person.service(product)}


def named(person: Person, product: int) -> Ids:
    row = person.get(f"/products/{product}").json()
    return {"productId": product, "serialNumber": row["serialNumber"], "uniqueId": row["uniqueId"]}


def with_contract(person: Person) -> Ids:
    service = person.service()
    person.sql.execute(
        "insert into contract (customer_id, service_id, order_number, document_number, starts_at, ends_at)"
        " values ($1, $2, 'O', 'D', now(), now())",
        person.customer,
        service,
    )
    return {"serviceId": service}


def linked(kind: str) -> Callable[[Person], Ids]:
    def make(person: Person) -> Ids:
        group, item = person.group(), MAKE[f"{kind}Id"](person)
        assert person.put(f"/groups/{group}/{kind}s", {f"{kind}Id": item}).status_code == 204
        return {"groupId": group, f"{kind}Id": item}

    return make


def member(person: Person) -> Ids:
    user = person.user()
    return {"userId": user, "emailAddress": person.get(f"/users/{user}").json()["emailAddress"]}


def elsewhere(person: Person) -> Ids:
    """A user of another customer of the same manager."""
    ids = member(person)
    customer = person.sql.value("insert into customer (name) values ('Elsewhere') returning customer_id")
    person.sql.execute(JOIN, person.username, customer, "Viewer")
    person.sql.execute(
        "with gone as (delete from customer_user where user_id = $2)"
        " insert into customer_user (customer_id, user_id) values ($1, $2)",
        customer,
        ids["userId"],
    )
    eventually(lambda: person.get("/users", headers={"Customer-ID": str(customer)}).is_success, "the other customer")
    return ids


def sdk_user(person: Person) -> Ids:
    key = secret_hashes.new_secret()
    person.sql.execute(
        "insert into sdk_key (customer_id, hash) values ($1, $2)", person.customer, secret_hashes.digest(key)
    )
    return {"customerId": person.customer, "sdkKey": key, "userId": person.user()}


def reassignable(person: Person) -> Ids:
    return {"assignmentId": MAKE["assignmentId"](person), "carId": person.car_with_box(), "userId": person.user()}


def delivered(person: Person) -> Ids:
    hook = webhook(person)
    return {"webhookId": hook, "deliveryId": person.post(f"/webhooks/{hook}/test").json()["id"]}


def pulled(person: Person) -> Ids:
    hook = person.put("/webhooks", {"pull": True}).json()["id"]
    person.post(f"/webhooks/{hook}/test")
    return {"webhookId": hook}


def with_secrets(person: Person) -> Ids:
    number = client(person)
    return {"clientId": number, "secretId": person.get(f"/clients/{number}/secrets").json()[0]["id"]}


def with_passkey(person: Person) -> Ids:
    id = person.sql.value(
        "insert into passkey"
        " (manager_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)"
        " select manager_id, convert_to($1, 'UTF8'), '', 0, '{}', '', 'Laptop', false from manager where username = $1"
        " on conflict (credential_id) do update set name = excluded.name returning passkey_id",
        person.username,
    )
    return {"passkeyId": id}


def signed_in(person: Person) -> Ids:
    person.browser().close()
    return {"sessionId": person.get("/sessions").json()[-1]["id"]}


def connected(person: Person) -> Ids:
    """A provider's account with which the manager signs in."""
    made = "insert into provider (name, label, issuer, client_id, client_secret, algorithms)"
    made += " values ($1, $1, 'https://x.example', 'x', '', '{RS256}') returning provider_id"
    provider = person.sql.value(made, f"p{next(NUMBERS)}")
    joined = "insert into manager_identity (provider_id, subject, manager_id) select $1, 'x', manager_id from manager"
    joined += " where username = $2 returning identity_id"
    return {"identityId": person.sql.value(joined, provider, person.username)}


def with_phone(person: Person) -> Ids:
    kim = driver(person)
    return {"userId": kim.user, "deviceId": kim.id}


def enrolled(person: Person) -> Ids:
    _, box = garage(person)
    return {"productId": box.product}


def enrolling(person: Person) -> Ids:
    """A box that signed the server's nonce."""
    box = Firmware(person.product())
    nonce = raw(person.post(f"/boxes/{box.product}/enrolment").json()["nonce"])
    return {
        "productId": box.product,
        "thumbprint": b64(box.key.public.thumbprint),
        "enrolment": b64(link_messages.read(box.say(link_messages.write(Enrol(nonce))), EnrolledMessage).enrolment),
    }


def replaced(person: Person) -> Ids:
    """A box with a pending enrolment that another manager began."""
    box = offline_key_errors.replaced(person)
    begun = "update box_epoch set enrolled_by = 'client:0' where customer_id = $1 and is_pending"
    person.sql.execute(begun, person.customer)
    return {"productId": box.product, "thumbprint": b64(box.key.public.thumbprint)}


# Rows that must be related for the owner's request to succeed
WORLDS: Mapping[str, Callable[[Person], Ids]] = {
    "GET /cars/{carId}/products": installed,
    "GET /cars/{carId}/telemetry": told,
    "GET /cars/{carId}/location": lambda person: installed(person, "IQ"),
    "GET /cars/{carId}/location/{searchDate}": lambda person: installed(person, "IQ"),
    "GET /products/{productId}/services": paired,
    "GET /products/{productId}/cars": installed,
    "GET /services/{serviceId}/products": paired,
    "GET /services/{serviceId}/contracts": with_contract,
    "PUT /users/assignments/customers": elsewhere,
    "DELETE /users/assignments/customers": member,
    "PATCH /assignments/{assignmentId}": reassignable,
    "DELETE /groups/{groupId}/cars/{carId}": linked("car"),
    "DELETE /groups/{groupId}/users/{userId}": linked("user"),
    "DELETE /groups/{groupId}/services/{serviceId}": linked("service"),
    "DELETE /groups/{groupId}/products/{productId}": linked("product"),
    "PUT /installations": installable,
    "DELETE /installations": installed,
    "PUT /pairings": pairable,
    "DELETE /pairings": paired,
    "POST /users/{userId}/app-invitation": lambda person: {"userId": person.user(type="Normal")},
    "POST /sdk/token": sdk_user,
    "POST /webhooks/{webhookId}/deliveries/{deliveryId}/replay": delivered,
    "GET /webhooks/{webhookId}/messages": pulled,
    "POST /webhooks/{webhookId}/messages/ack": pulled,
    "DELETE /sessions/{sessionId}": signed_in,
    "DELETE /me/identities/{identityId}": connected,
    "DELETE /clients/{clientId}/secrets/{secretId}": with_secrets,
    "DELETE /me/passkeys/{passkeyId}": with_passkey,
    "DELETE /users/{userId}/devices/{deviceId}": with_phone,
    "PUT /users/{userId}/devices/{deviceId}/approval": with_phone,
    "DELETE /boxes/{productId}/enrolment": replaced,
    "POST /boxes/{productId}/enrolment/approval": replaced,
    "PUT /boxes/{productId}/enrolment": enrolling,
    "GET /boxes/{productId}/enrolment": enrolled,
    "GET /boxes/{productId}/provisioning": enrolled,
    "GET /boxes/{productId}/status": enrolled,
}

# Members of bodies that are not slots
BODIES: Mapping[str, Ids] = {
    "PUT /booking-settings": {"bookings": "shared", "bookingsEnforced": False, "bookingGap": 0},
    "PUT /cars/{carId}/booking-settings": {"bookings": "shared", "bookingGap": None},
    "PUT /driver-settings": {"phone": "+49 221 5550123", "showsPlace": True, "extensionHours": 0},
    "PUT /assignments": {"start": "2026-01-01T00:00:00Z"},
    "PUT /events": {
        "dateTime": "2026-01-01T00:00:00",
        "utcDateTime": "2026-01-01T00:00:00Z",
        "type": "CarOpened",
        "userAgent": "x",
    },
    "PUT /assignment-requests/{requestId}/decision": {"decision": "reject"},
    "POST /webhooks/{webhookId}/replay": {"from": "2026-01-01T00:00:00Z"},
    "POST /webhooks/{webhookId}/messages/ack": {"upto": 1},
}
PATCHES: Mapping[str, Ids] = {
    "PATCH /cars/{carId}": {"name": "New"},
    "PATCH /groups/{groupId}": {"name": "New"},
    "PATCH /assignments/{assignmentId}": {},
    "PATCH /users/{userId}": {"metadata": {"plan": "new"}},
    "PATCH /products/{productId}": {"metadata": {"plan": "new"}},
    "PATCH /webhooks/{webhookId}": {"enabled": False},
    "PATCH /clients/{clientId}": {"enabled": False},
    "PATCH /managers/{managerId}": {"role": "Auditor"},
}


def world(endpoint: Endpoint, person: Person) -> Ids:
    """Return ids of the person's own rows for every slot of the endpoint."""
    make = WORLDS.get(name(endpoint))
    if make is not None:
        return make(person)
    unknown = [slot for slot in slots(endpoint) if slot not in MAKE]
    assert not unknown, f"say in WORLDS or MAKE how the rows of {name(endpoint)} are made: {unknown}"
    return {slot: MAKE[slot](person) for slot in slots(endpoint)}


def ask(person: Person, endpoint: Endpoint, ids: Ids, query: str = "") -> httpx.Response:
    fixed = {"searchDate": "2026-01-01T00:00:00Z"}
    path = endpoint.path.format(**fixed | ids) + (query or query_of(endpoint))
    whole = schema(endpoint)
    if not whole:
        return person.call(endpoint.method, path)
    given = {slot: ids[slot] for slot in slots(endpoint) if slot not in endpoint.parameters}
    given |= {member: ids[member] for member in ids.keys() & MADE}
    if whole["type"] == "array":
        changes = given | PATCHES[name(endpoint)]
        steps = [{"op": "replace", "path": f"/{member}", "value": value} for member, value in changes.items()]
        return person.call(endpoint.method, path, steps)
    if name(endpoint) in BY:
        given = {slot: given[slot] for slot in given if slot == ids.get("by", "userId")}
    return person.call(endpoint.method, path, given | BODIES.get(name(endpoint), {}))


@pytest.mark.parametrize("endpoint", WITH_SLOTS, ids=name)
def test_another_customer_s_id_gets_the_response_of_an_unknown_id(
    endpoint: Endpoint, alice: Person, bob: Person
) -> None:
    hers, his = world(endpoint, alice), world(endpoint, bob)
    for slot in slots(endpoint):
        if (name(endpoint), slot) in SHARED:
            continue
        by = {"by": slot} if name(endpoint) in BY else {}
        answers = [ask(bob, endpoint, his | {slot: id} | by) for id in (hers[slot], NOWHERE.get(slot, 2147483647))]
        assert [answer.status_code for answer in answers] == [400 if endpoint.path == "/sdk/token" else 404] * 2
        assert answers[0].content == answers[1].content
        assert answers[0].headers["content-type"] == answers[1].headers["content-type"]
    together = ask(bob, endpoint, hers)
    assert together.status_code in (400, 404)
    # Alice's own request succeeds. So Bob's error was due to the owner
    own = ask(alice, endpoint, hers)
    if endpoint.doc.is_extension:
        assert own.status_code not in (400, 404), own.text
    else:
        assert own.status_code == endpoint.responses.status, own.text


# An app names no user: its token identifies the user


def told_to(kim: Phone, box: str, device: str) -> list[tuple[int, Any]]:
    """Return the responses to this phone's user about a box and a phone."""
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"/sdk/keys?device={device}", None),
        ("POST", "/sdk/time", {"box": box, "nonce": b64(bytes(16))}),
        ("DELETE", f"/sdk/devices/{device}", None),
    ]
    answers = [kim.call(*call) for call in calls]
    return [(answer.status_code, answer.content) for answer in answers]


def visitor(person: Person) -> tuple[Phone, Firmware]:
    """A user who has opened a car, with the box's log to upload."""
    kim = driver(person)
    car, box = garage(person)
    person.assignment(car, kim.user)
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    return kim, box


def test_an_app_gets_the_response_of_an_unknown_id_for_others_rows(alice: Person, bob: Person) -> None:
    """Covers another customer's rows, and rows of another user of the same customer."""
    hers, _ = visitor(alice)
    name_of_hers = hers.held["boxes"][0]["box"]
    for other in (visitor(bob)[0], visitor(alice)[0]):
        nothing = told_to(other, "box:2147483647:1", b64(bytes(32)))
        assert [status for status, _ in nothing] == [404, 404, 404]
        assert told_to(other, name_of_hers, hers.id) == nothing
        assert [one["box"] for one in other.fetch()["boxes"]] != [name_of_hers]
    # Alice's own requests succeed
    assert hers.home()["refused"] == []
    assert [status for status, _ in told_to(hers, name_of_hers, hers.id)] == [200, 200, 204]


def test_logs_of_another_customer_s_box_get_the_response_of_an_unknown_box(alice: Person, bob: Person) -> None:
    hers, box = visitor(alice)
    his, _ = visitor(bob)
    claims = [cose.read(entry, ENTRY).claims | {"aud": "box:2147483647:1"} for entry in hers.entries]
    nobodys = [cose.sign(ENTRY, box.key.public.kid, each, box.key.sign) for each in claims]
    answers = [
        his.call("PUT", "/sdk/boxlog", {"entries": [b64(entry) for entry in entries]})
        for entries in (hers.entries, nobodys)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert answers[0].json()["receipts"] == []
    assert len(answers[0].json()["refused"]) == len(hers.entries) > 0
    assert alice.get(f"/boxes/{box.product}/enrolment").json()["log"]["newest"] == 0


# Lists that are never empty are tested in tests/changelog/feed. Lists for group-limited callers only are tested in
# tests/assignments/endpoints/test_hidden_assignments.py
OTHERS = ("/changes", "/managers", "/hidden-assignments")
LISTS = [
    row
    for row in ALL
    if row.read is not None and row.auth.has_customer and not row.parameters and row.path not in OTHERS
]


def test_lists_have_only_the_customer_s_own_rows(alice: Person, carol: Person) -> None:
    for make in MAKE.values():
        make(alice)
    for endpoint in LISTS:
        path = endpoint.path + query_of(endpoint)
        assert eventually(lambda path=path: alice.get(path).json()), path
        assert carol.get(path).content == b"[]", path


def test_event_numbers_are_counted_per_customer(alice: Person, carol: Person) -> None:
    alice.event(alice.car(), alice.user())
    assert carol.event(carol.car(), carol.user()) == 1


def test_slots_are_derived_from_the_table() -> None:
    """Checks samples of the derivation."""
    found = {name(endpoint): slots(endpoint) for endpoint in WITH_SLOTS}
    assert found["PUT /installations"] == ["uniqueId", "serialNumber", "productId", "carId"]
    assert found["PATCH /assignments/{assignmentId}"] == ["assignmentId", "carId", "userId"]
    assert found["DELETE /groups/{groupId}/users/{userId}"] == ["groupId", "userId"]
    assert found["POST /sdk/token"] == ["customerId", "sdkKey", "userId"]
    assert found["PUT /users/assignments/customers"] == ["emailAddress", "userId"]
    assert len([endpoint for endpoint in WITH_SLOTS if not endpoint.doc.is_extension]) == 44
