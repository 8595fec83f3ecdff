"""Group-limited managers for tests, with an unlimited one of the same customer."""

from __future__ import annotations

from typing import Any

from keyrack.api.permissions import Role
from tests.support.people import Person, Town, done
from tests.support.servers import Sql, eventually

KINDS = {"carId": "cars", "userId": "users", "serviceId": "services", "productId": "products"}
# The contents of each scope, by the tables of the groups
MEANT = """
select s.scope_id, m.kind, m.id, count(*)::integer as groups from scope s
join scope_group g using (customer_id, scope_id) join (
  select customer_id, group_id, 'car' as kind, car_id as id from group_car
  union all select customer_id, group_id, 'user', user_id from group_user
  union all select customer_id, group_id, 'service', service_id from group_service
  union all select customer_id, group_id, 'product', product_id from group_product
) m on m.customer_id = g.customer_id and m.group_id = g.group_id
where s.customer_id = $1 group by 1, 2, 3 order by 1, 2, 3
"""
KEPT = """
select scope_id, kind, member_id as id, groups from scope_member where customer_id = $1 order by 1, 2, 3
"""


def limited(town: Town, whole: Person, name: str, groups: list[int], role: Role = Role.MANAGER) -> Person:
    """A group-limited manager of the customer of `whole`."""
    person = town.colleague(whole, name, role)
    limit(whole, person, groups)
    return person


def number(person: Person) -> int:
    return person.sql.value("select manager_id from manager where username = $1", person.username)


def limit(whole: Person, person: Person, groups: list[int]) -> None:
    """Limit the person to these groups from now on.

    A customer with no other group gets one, because `seen` could not detect the limit otherwise.
    """
    if {row["id"] for row in whole.get("/groups").json()} <= set(groups):
        whole.group()
    done(whole.patch(f"/managers/{number(person)}", [{"op": "replace", "path": "/groups", "value": groups}]))
    seen(person, groups)


def seen(person: Person, groups: list[int]) -> None:
    """Wait until every server applies the limit."""

    def is_told() -> bool:
        return sorted(row["id"] for row in person.get("/groups").json()) == sorted(groups)

    eventually(is_told, "the limit")


# Rows that are in a group by their car and their user
OF_CAR_AND_USER = {"assignmentId": "/assignments", "eventId": "/events", "requestId": "/assignment-requests"}


def into(whole: Person, group: int, ids: dict[str, Any]) -> None:
    """Put these things into the group.

    An assignment is there by its car and user, and so is what belongs to one.
    """
    named = {slot: id for slot, id in ids.items() if slot in KINDS}
    for slot, path in OF_CAR_AND_USER.items():
        if slot in ids:
            row = whole.get(f"{path}/{ids[slot]}").json()
            put(whole, group, "carId", row["carId"])
            put(whole, group, "userId", row["userId"])
    for slot, id in named.items():
        put(whole, group, slot, id)


def put(whole: Person, group: int, slot: str, id: int) -> None:
    answer = whole.put(f"/groups/{group}/{KINDS[slot]}", {slot: id})
    assert answer.status_code in (204, 409), answer.text


def as_meant(sql: Sql, customer: int) -> bool:
    """Whether the stored contents of every scope match its groups."""
    return sql.rows(KEPT, customer) == sql.rows(MEANT, customer)
