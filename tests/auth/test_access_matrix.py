"""Every operation with every kind of caller.

The tests check rejections, and answers to group-limited callers. The table of endpoints is the only source of the
operations. Three facts determine the rejections: the permissions of a row, that only people may call the paths below
`/me` and `/sessions`, and that a second person is no machine client.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import httpx
import pytest

from keyrack.api.auth_schemes import AppAuth, ClientSecretAuth, DeviceAuth, DriverAuth
from keyrack.api.endpoint import Endpoint
from keyrack.api.grants import LIMITED, NOT_PERMITTED
from keyrack.api.permissions import GRANTED, PROGRAMS, WITHIN_GROUPS, Permission, Role, closed
from keyrack.api.principals import FOR_PEOPLE
from keyrack.api.schema.fields import RESOURCES
from keyrack.core.error_codes import INVALID_DEVICE_KEY, INVALID_TOKEN, NO_CUSTOMER, SIGNED_OUT
from keyrack.http.routes import ALL
from tests.api.test_idempotency import KEYED, RELATIONS, sent
from tests.auth.group_scope import limited, put
from tests.auth.test_clients import Program
from tests.auth.test_roles import asked
from tests.changelog.transparency.checkpoints import settled
from tests.http.test_contract import ENDLESS, name, over, query_of
from tests.http.test_tenant_isolation import world
from tests.support.drivers import as_driver, page_headers
from tests.support.people import Person, Town, done
from tests.support.servers import eventually
from tests.telemetry.endpoints.test_ingest import Unit, device_key

PROBLEM = {"Accept": "application/problem+json"}
REFUSALS = {
    reason.code for reason in (NOT_PERMITTED, LIMITED, FOR_PEOPLE, INVALID_TOKEN, INVALID_DEVICE_KEY, SIGNED_OUT)
}
# Their answers depend on a secret in the request, which no caller of the matrix shows
BY_SECRET = [row for row in ALL if isinstance(row.auth, ClientSecretAuth)]
SECOND_PERSON = "/boxes/{productId}/enrolment/approval"
LIMITED_ROLES = [role for role in Role if role is not Role.OWNER]


@dataclass
class Principal:
    """A caller of the matrix, and its permissions."""

    person: Person
    kind: str  # manager, client, device, app, driver, stranger
    permissions: frozenset[Permission] = frozenset()  # in the customer of the matrix
    whole: frozenset[Permission] = frozenset()  # of the role, without the limit to groups
    elsewhere: frozenset[Permission] = frozenset()  # in any customer
    is_limited: bool = False
    is_revoked: bool = False

    def call(self, endpoint: Endpoint) -> httpx.Response:
        if self.kind != "driver":
            return asked(self.person, endpoint)
        driver = as_driver(self.person)  # a new one for each row, as some rows end the session
        return asked(replace(driver, headers=self.person.headers | {"Authorization": None} | driver.headers), endpoint)

    def refusal(self, row: Endpoint) -> tuple[int, str, str | None] | None:
        """The status, the code and the missing permission of the answer. None if the row lets the principal in."""
        if isinstance(row.auth, DeviceAuth):
            return None if self.kind == "device" else (401, INVALID_DEVICE_KEY.code, None)
        if isinstance(row.auth, AppAuth):
            is_in = self.kind == "app" and not self.is_revoked
            return None if is_in else (401, INVALID_TOKEN.code, None)
        if isinstance(row.auth, DriverAuth):
            return None if self.kind == "driver" else (401, SIGNED_OUT.code, None)
        if not row.auth.has_token:
            return None
        if self.kind in ("device", "app", "driver"):
            return 401, INVALID_TOKEN.code, None
        if self.kind == "stranger" and row.auth.has_customer:
            return 404, NO_CUSTOMER.code, None
        if row.path.split("/")[1] in ("me", "sessions"):
            return (403, FOR_PEOPLE.code, None) if self.kind == "client" else None
        has = self.permissions if row.auth.has_customer else self.elsewhere
        if row.read is not None and row.read.own_rows is not None and has:
            return None  # for what it asked for itself
        for wanted in row.permissions:
            if wanted not in has:
                code = (
                    LIMITED.code
                    if row.auth.has_customer and self.is_limited and wanted in self.whole
                    else NOT_PERMITTED.code
                )
                return 403, code, str(wanted)
        if row.path == SECOND_PERSON and self.kind == "client":
            return 403, FOR_PEOPLE.code, None
        if row.auth.has_customer and self.is_limited and not row.is_group_scoped:
            return 403, LIMITED.code, str(row.auth.permission)
        return None


class Cast(NamedTuple):
    whole: Person
    group: int
    near: Mapping[str, int]
    hidden: Mapping[str, int]
    limited: Mapping[Role, Person]
    principals: Mapping[str, Principal]


@pytest.fixture(scope="module")
def cast(town: Town) -> Iterator[Cast]:
    whole = town.person("the whole fleet")
    group = whole.group("Near")
    near, hidden = fleet(whole, "Near", group), fleet(whole, "Hidden", whole.group("Hidden"))
    for car, user in ((near["carId"], hidden["userId"]), (hidden["carId"], near["userId"])):
        whole.assignment(car, user)
        whole.event(car, user)
    put(whole, hidden["groupId"], "carId", near["carId"])
    done(whole.patch(f"/cars/{near['carId']}", [{"op": "replace", "path": "/model", "value": "In two groups"}]))
    serial = f"Hidden unit {whole.customer}"
    unit = whole.product("IQ", serial_number=serial, unique_id=f"Hidden unit U{whole.customer}")
    whole.service(unit, "Hidden service of a unit")
    done(whole.put("/installations", {"carId": near["carId"], "productId": unit}))
    Unit(whole, near["carId"], serial, device_key(whole)).tell(1, currentLatitude=50.1, currentLongitude=8.6)
    some: dict[str, Principal] = {}
    for role in Role:
        mine = GRANTED[role]
        person = whole if role is Role.OWNER else town.colleague(whole, f"the {role}", role)
        some[f"{role}"] = Principal(person, "manager", mine, mine, mine)
    few = {role: limited(town, whole, f"the limited {role}", [group], role) for role in LIMITED_ROLES}
    for role, person in few.items():
        mine = GRANTED[role]
        some[f"limited {role}"] = Principal(person, "manager", mine & WITHIN_GROUPS, mine, mine, is_limited=True)
    for scope in PROGRAMS:
        some[f"client {scope}"] = client(whole, scope)
    some["client of all scopes"] = client(whole, *PROGRAMS)
    by_key = {"Device-Key": device_key(whole), "Authorization": None}
    some["device"] = Principal(replace(whole, headers=whole.headers | by_key), "device")
    some["driver"] = Principal(whole, "driver")
    some["app"] = app(whole, near["userId"])
    some["app of a revoked SDK key"] = replace(app(whole, near["userId"]), is_revoked=True)
    newest = "(select max(sdk_key_id) from sdk_key where customer_id = $1)"
    revoke = f"update sdk_key set revoked_at = now() where customer_id = $1 and sdk_key_id = {newest}"
    whole.sql.execute(revoke, whole.customer)
    stranger = town.person("a stranger")
    foreign = replace(stranger, headers=stranger.headers | {"Customer-ID": str(whole.customer)})
    some["stranger"] = Principal(foreign, "stranger", elsewhere=GRANTED[Role.OWNER])
    for principal in some.values():
        headers = principal.person.headers | page_headers(whole) | PROBLEM
        principal.person = replace(principal.person, headers=headers)
    yield Cast(whole, group, near, hidden, few, some)
    for person in (stranger, *few.values()):
        person.client.close()


REQUEST = """
insert into assignment_request (customer_id, user_id, assignment_id, car_id, kind, wanted_end)
values ($1, $2, $3, $4, 'extend', now() + interval '1 day') returning request_id
"""


def fleet(whole: Person, label: str, group: int) -> dict[str, int]:
    """One thing of each kind in the group: a car has a box and an assignment."""
    car, user = whole.car(f"{label} car"), whole.user(f"{label}.{whole.customer}@example.org".lower())
    box = whole.product(serial_number=f"{label} {whole.customer}", unique_id=f"{label} box {whole.customer}")
    things = {"carId": car, "userId": user, "productId": box, "serviceId": whole.service(box, f"{label} service")}
    for slot, id in things.items():
        put(whole, group, slot, id)
    done(whole.put("/installations", {"carId": car, "productId": box}))
    made = {"assignmentId": whole.assignment(car, user), "eventId": whole.event(car, user)}
    made["requestId"] = whole.sql.value(REQUEST, whole.customer, user, made["assignmentId"], car)
    return things | made | {"groupId": group}


def client(whole: Person, *scopes: Permission) -> Principal:
    headers = whole.headers | Program(whole, *map(str, scopes)).headers()
    mine = closed(scopes)
    return Principal(replace(whole, headers=headers), "client", mine, mine, mine)


def app(whole: Person, user: int) -> Principal:
    """An app of a user that also sends the API key and `Customer-ID`."""
    token = whole.app_of(user).headers
    return Principal(replace(whole, headers=whole.headers | token), "app")


@over([row for row in ALL if row not in BY_SECRET])
def test_each_principal_is_refused_what_is_not_for_it(cast: Cast, endpoint: Endpoint) -> None:
    for title, principal in cast.principals.items():
        answer, wanted = principal.call(endpoint), principal.refusal(endpoint)
        if endpoint in ENDLESS:
            assert (answer.status_code if wanted else answer.status_code // 100) == (wanted[0] if wanted else 2), title
            continue
        problem = answer.json() if "problem" in answer.headers.get("content-type", "") else {}
        outcome = (answer.status_code, problem.get("code"), problem.get("permission"))
        if wanted is None:
            assert answer.status_code < 500 and problem.get("code") not in REFUSALS, (title, outcome)
        else:
            assert outcome == wanted, title


def test_a_row_is_open_to_some_principal_of_each_kind(cast: Cast) -> None:
    """A matrix that refuses every caller would pass as well."""
    for row in ALL:
        let_in = {principal.kind for principal in cast.principals.values() if principal.refusal(row) is None}
        assert let_in >= (
            {"device"}
            if isinstance(row.auth, DeviceAuth)
            else {"app"}
            if isinstance(row.auth, AppAuth)
            else {"driver"}
            if isinstance(row.auth, DriverAuth)
            else {"manager"}
        ), name(row)


def expanded(path: str, relation: str) -> str:
    """The path with `$expand`."""
    return f"{path}{'&' if '?' in path else '?'}$expand={relation}"


@over([row for row in ALL if row.read is not None and row.auth.has_customer and row.read.relations])
def test_a_relation_needs_its_own_permission(cast: Cast, endpoint: Endpoint) -> None:
    assert endpoint.read is not None
    path = endpoint.path.format(**cast.near) if set(endpoint.parameters) <= set(cast.near) else None
    for relation, permission in endpoint.read.relations.items():
        if path is None or permission in closed(endpoint.permissions):
            continue
        narrow = client(cast.whole, *endpoint.permissions).person
        answer = narrow.get(expanded(path + query_of(endpoint), relation), headers=PROBLEM)
        assert (answer.status_code, answer.json()["permission"]) == (403, str(permission)), relation


@over([row for row in KEYED if row.responses.representation is not None and row.auth.permission in PROGRAMS])
def test_an_idempotency_key_replaces_no_permission(endpoint: Endpoint, bob: Person) -> None:
    """The client had the permission when it got the answer."""
    assert endpoint.representation_read is not None
    relation = RELATIONS.get(endpoint.responses.representation.path)
    query = f"?$expand={relation}" if relation else ""
    shown = endpoint.representation_read.select.resource
    wanted = RESOURCES[shown.relations[relation].target].permission if relation else shown.permission
    program = Program(bob, str(endpoint.auth.permission), str(wanted))
    narrow, whole = (
        replace(bob, headers=bob.headers | program.headers(scope=scope))
        for scope in (str(endpoint.auth.permission), f"{endpoint.auth.permission} {wanted}")
    )
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Prefer": "return=representation"}
    ids = world(endpoint, bob)
    first = sent(whole, endpoint, ids, query, **headers)
    assert first.is_success, first.text
    if wanted in closed([Permission(endpoint.auth.permission)]):
        return
    if endpoint.representation_read.own_rows is not None:  # what it asked for itself needs no permission
        headers["Idempotency-Key"] = str(uuid.uuid4())
        answer = sent(narrow, endpoint, world(endpoint, bob), query, **headers, **PROBLEM)
        assert answer.is_success, answer.text
        return
    for key in (headers["Idempotency-Key"], str(uuid.uuid4())):
        answer = sent(narrow, endpoint, ids, query, **headers | {"Idempotency-Key": key}, **PROBLEM)
        assert (answer.status_code, answer.json()["permission"]) == (403, str(wanted))
    assert sent(whole, endpoint, ids, query, **headers).content == first.content


# Reads of group-limited callers

READS = [row for row in ALL if row.method == "GET" and row.auth.has_customer and row.is_group_scoped]
# They count the whole customer, or are the time of the answer: docs/group-scope.md lists them as exceptions
COUNTING_HEADERS = {"changes-newest", "changes-oldest", "date", "x-request-id", "keyrack-position", "content-length"}
COUNTING_MEMBERS = {"asOf", "at", "from", "to"}


@dataclass
class Seen:
    """The answers that one caller got."""

    answers: dict[str, tuple[int, Any, dict[str, str]]] = field(default_factory=dict[str, Any])

    def add(self, path: str, answer: httpx.Response) -> None:
        is_json = "json" in answer.headers.get("content-type", "") and answer.content
        headers = {name: text for name, text in answer.headers.items() if name not in COUNTING_HEADERS}
        value = answer.json() if is_json else answer.text
        if isinstance(value, dict) and COUNTING_MEMBERS & value.keys():
            value = {member: item for member, item in value.items() if member not in COUNTING_MEMBERS}
            headers.pop("etag", None)
        self.answers[path] = (answer.status_code, value, headers)


def seen(cast: Cast, person: Person) -> Seen:
    """Every read of the table for the things in the groups, with each relation."""
    reads = Seen()
    for row in READS:
        ids = {"searchDate": "2026-01-01T00:00:00Z", **cast.near}
        path = row.path.format(**ids) + query_of(row)
        reads.add(path, person.call("HEAD" if row in ENDLESS else "GET", path))
        for relation in row.read.relations if row.read else ():
            reads.add(expanded(path, relation), person.get(expanded(path, relation)))
    return reads


def numbers(value: Any, names: set[str]) -> Iterator[tuple[str, int]]:
    """The numbers of things in an answer, by the field that names them."""
    if isinstance(value, list):
        for item in value:
            yield from numbers(item, names)
    elif isinstance(value, dict):
        if value.get("resource", "") + "Id" in names:
            yield value["resource"] + "Id", int(value["resourceId"])
        yield from (("groupId", item) for item in value.get("groups") or () if isinstance(item, int))
        for member, item in value.items():
            if member in names and isinstance(item, int):
                yield member, item
            yield from numbers(item, names)


def changes(value: Any) -> Iterator[dict[str, Any]]:
    """The changes in an answer: of the log, or the events of an access history."""
    rows = value.get("events", ()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from (row for row in rows if isinstance(row, dict) and {"kind", "groups", "resourceId"} <= row.keys())


def test_a_limited_caller_sees_no_marker_of_hidden_things(cast: Cast) -> None:
    settled(cast.whole)
    hidden = {(slot, id) for slot, id in cast.hidden.items()}
    crossing = {("assignmentId", row["id"]) for row in cast.whole.get("/assignments").json()}
    hidden |= crossing - {("assignmentId", cast.near["assignmentId"])}
    for role, person in cast.limited.items():
        answers = seen(cast, person).answers
        assert sum(status == 200 for status, *_ in answers.values()) > 10, role
        for path, (_, value, headers) in answers.items():
            text = json.dumps([value, headers]).replace('"hiddenAssignments"', "")  # the name of a relation
            assert "hidden" not in text.lower(), (role, path)
            assert set(numbers(value, set(cast.hidden))).isdisjoint(hidden), (role, path)
            assert {tuple(change["groups"]) for change in changes(value)} <= {(cast.group,)}, (role, path)


def test_hidden_activity_changes_no_answer(cast: Cast) -> None:
    whole, near, hidden = cast.whole, cast.near, cast.hidden
    settled(whole)
    before = {role: seen(cast, person) for role, person in cast.limited.items()}
    steps = [{"op": "replace", "path": "/name", "value": "Hidden by another name"}]
    done(whole.patch(f"/cars/{hidden['carId']}", steps))
    for car, user in ((near["carId"], hidden["userId"]), (hidden["carId"], near["userId"])):
        assignment = whole.assignment(car, user, start="2020-01-01T00:00:00Z", end="2030-01-01T00:00:00Z")
        whole.event(car, user, utcDateTime="2020-01-01T00:00:00Z")
        done(whole.delete(f"/assignments/{assignment}"))
        eventually(lambda id=assignment: whole.get(f"/assignments/{id}").status_code == 404, "the end")
    settled(whole)
    for role, person in cast.limited.items():
        after = seen(cast, person)
        assert after.answers.keys() == before[role].answers.keys()
        for path, answer in after.answers.items():
            assert answer == before[role].answers[path], (role, path)
