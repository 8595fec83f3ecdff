"""Reads of the spec return exactly its members unless the caller names others."""

from __future__ import annotations

from typing import Any, cast

from keyrack.api.schema.fields import Complex, Resource
from keyrack.http.routes import ALL
from tests.fleet.test_references import program
from tests.support.people import Person, done
from tests.support.servers import eventually

CAR = {"id", "name", "description", "vin", "licensePlate", "brand", "model"}
USER = {"id", "emailAddress", "userData", "userData/firstName", "userData/lastName"}
GROUP = {"id", "name"}
PRODUCT = {"id", "uniqueId", "serialNumber", "sapNumber", "type"}
PRODUCT_WHOLE = PRODUCT | {"dongleTerminationTimeStamp"}
SERVICE = {"id", "name", "isTerminated", "terminationDate", "terminationCause"}
SERVICE_WHOLE = SERVICE | {"productId"}
ASSIGNMENT = {"id", "carId", "userId", "start", "end", "lifetime", "renewableAfter"}
LOCATION = {"longitude", "latitude", "date", "odometer", "odometerDate"}
EVENT = {"id", "dateTime", "utcDateTime", "userId", "carId", "type", "userAgent", "latitude", "longitude"}
CONTRACT = {
    "orderNumber", "documentNumber", "orderPosition", "start", "end", "termOfContract", "termOfNotice", "unitOfNotice",
}  # fmt: skip
KEY = {"id", "brand", "boxName", "boxSapNumber", "keyForm", "keyForm/id", "keyForm/name", "keyForm/imageUrl"}
# The spec's tables by read. Telemetry has more than fifty members, which tests/telemetry compares
MEMBERS = {
    "/customers": {"id", "name"},
    "/cars": CAR,
    "/cars/{carId}": CAR,
    "/cars/{carId}/products": PRODUCT_WHOLE,
    "/cars/{carId}/location": LOCATION,
    "/cars/{carId}/location/{searchDate}": LOCATION,
    "/cars/{carId}/assignments": {"id", "userId", "start", "end"},
    "/cars/{carId}/events": EVENT,
    "/users": USER,
    "/users/{userId}": USER,
    "/users/{userId}/assignments": {"id", "carId", "start", "end"},
    "/assignments/{assignmentId}": ASSIGNMENT,
    "/groups": GROUP,
    "/groups/{groupId}/cars": CAR,
    "/groups/{groupId}/users": USER,
    "/groups/{groupId}/services": SERVICE,
    "/groups/{groupId}/products": PRODUCT_WHOLE,
    "/products": PRODUCT,
    "/products/{productId}": PRODUCT_WHOLE,
    "/products/{productId}/services": SERVICE,
    "/products/{productId}/cars": CAR,
    "/services": SERVICE_WHOLE,
    "/services/{serviceId}": SERVICE_WHOLE,
    "/services/{serviceId}/products": PRODUCT_WHOLE,
    "/services/{serviceId}/contracts": CONTRACT,
    "/brands": {"name"},
    "/brands/{brand}/keys": KEY,
    "/events/{eventId}": EVENT,
}


def members(resource: Resource) -> set[str]:
    """The members of a response without `$select`."""
    found = set[str]()
    for name, member in resource.fields.items():
        if isinstance(member, Complex):
            found |= {name, *(f"{name}/{part}" for part, field in member.fields.items() if not field.is_extension)}
        elif not member.is_extension:
            found.add(name)
    return found


def difference(path: str, names: set[str]) -> str:
    return f"GET {path}: {names}. Give a new member `is_extension=True` (docs/data-model.md)."


def test_a_manager_gets_the_members_of_the_spec(alice: Person) -> None:
    car, user, group, box = alice.car_with_box(), alice.user(), alice.group(), alice.product()
    ids = {"/cars/{carId}": car, "/users/{userId}": user, "/products/{productId}": box}
    for template, expected in MEMBERS.items():
        if template in ids:
            answer = alice.get(template.partition("{")[0] + str(ids[template])).json()
        elif template in ("/cars", "/users", "/groups", "/products", "/groups/{groupId}/cars"):
            if "{" in template:
                alice.put(f"/groups/{group}/cars", {"carId": car}).raise_for_status()
            answer = alice.get(template.replace("{groupId}", str(group))).json()[0]
        else:
            continue
        found = answer.keys()
        top_level = {name for name in expected if "/" not in name}
        assert found == top_level, difference(template, found ^ top_level)


def test_each_read_of_the_spec_has_exactly_its_members() -> None:
    """A member beyond the spec has `is_extension=True` in its declaration."""
    reads = {row.path: row.read for row in ALL if row.read and not row.doc.is_extension}
    assert reads.keys() == {*MEMBERS, "/cars/{carId}/telemetry"}
    for path, expected in MEMBERS.items():
        read = reads[path]
        assert read is not None
        found = members(read.select.resource)
        assert found == expected, difference(path, found ^ expected)


REFERENCES = {"externalId": "S-1", "metadata": {"plan": "gold"}}
STEPS = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in REFERENCES.items()]


def referenced(part: Any) -> int:
    """The number of objects with `exclusive` or a reference in an answer."""
    if isinstance(part, list):
        return sum(map(referenced, cast("list[Any]", part)))
    if isinstance(part, dict):
        members = cast("dict[str, Any]", part)
        own = not members.keys().isdisjoint(("exclusive", "externalId", "metadata"))
        return own + sum(referenced(value) for name, value in members.items() if name != "metadata")
    return 0


def test_references_are_only_in_answers_that_ask_for_them(carol: Person) -> None:
    car, user, group = carol.car_with_box(), carol.user(), carol.group()
    box = carol.get(f"/cars/{car}/products").json()[0]["id"]
    assignment = carol.assignment(car, user, end="2031-01-01T08:00:00Z")
    for kind, id in (("car", car), ("user", user), ("product", box)):
        done(carol.put(f"/groups/{group}/{kind}s", {f"{kind}Id": id}))
    rows = [f"/cars/{car}", f"/users/{user}", f"/groups/{group}", f"/products/{box}"]
    representation = {"Prefer": "return=representation"}
    for row in rows:
        changed = carol.patch(row, STEPS, headers=representation)
        assert changed.status_code == 200
        is_extension = row.startswith("/groups")  # the spec has no read of one group
        assert referenced(changed.json()) == is_extension, row
    done(carol.patch(f"/assignments/{assignment}", STEPS))
    eventually(lambda: carol.get(f"/assignments/{assignment}?$select=externalId").json()["externalId"], "the change")
    reads = [
        *rows[:2], rows[3], f"/assignments/{assignment}", "/cars", "/users", "/groups", "/products",
        *(f"/cars/{car}/{part}" for part in ("products", "assignments")), f"/users/{user}/assignments",
        *(f"/groups/{group}/{part}" for part in ("cars", "users", "products")), f"/products/{box}/cars",
        f"/cars/{car}?$expand=products,assignments,groups", f"/users/{user}?$expand=assignments,groups",
        f"/assignments/{assignment}?$expand=car,user", "/groups?$expand=cars,users,products", "/cars?$select=*",
    ]  # fmt: skip
    for read in reads:
        answer = carol.get(read)
        assert answer.status_code == 200, answer.text
        assert answer.json() and referenced(answer.json()) == 0, read
    both = "$select=externalId,metadata"
    for row in (*rows, f"/assignments/{assignment}"):
        assert carol.get(f"{row}?{both}").json() == REFERENCES, row
    assert carol.get(f"/cars/{car}?$expand=products({both})").json()["products"] == [REFERENCES]
    lists = (f"/cars/{car}/assignments", f"/users/{user}/assignments", f"/assignments?$filter=id eq {assignment}")
    for read in lists:
        assert carol.get(f"{read}{'&' if '?' in read else '?'}$select=exclusive").json() == [{"exclusive": False}], read
    client = program(carol, "cars:read", "users:read", "groups:read", "products:read", "assignments:read")
    for read in lists:
        (row,) = client.get(read).json()
        assert (row["exclusive"], row["externalId"]) == (False, "S-1"), read
    for read in reads[:13]:
        assert referenced(client.get(read).json()) == 1, read
