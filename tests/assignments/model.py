"""A model of one customer's assignments: replays all operations in the order of the applied numbers.

It follows the written rules alone and shares no code with the server. Triggers of the tests log changes of boxes,
services, users and cars. Each entry has the applied number after which the change came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LOG = """
create table test_ground (
  n bigint generated always as identity primary key, customer_id integer not null, after bigint not null,
  what text not null, a integer not null, b integer, at timestamptz not null default clock_timestamp()
);
create function log_ground() returns trigger language plpgsql as $$
declare
  r record := coalesce(new, old);
  told text := tg_argv[0];
  a integer;
  b integer;
begin
  if tg_table_name = 'car' then a := r.car_id;
  elsif tg_table_name = 'customer_user' then a := r.user_id;
  elsif tg_table_name = 'product' then
    if tg_op = 'UPDATE' and new.car_id is not distinct from old.car_id or tg_op = 'INSERT' and new.car_id is null then
      return null;
    end if;
    told := case when new.car_id is null then 'uninstall' else 'install' end;
    a := r.product_id;
    b := case when new.car_id is null then old.car_id else new.car_id end;
  else
    told := case when new.is_terminated then 'terminated' else 'service' end;
    a := r.service_id;
    b := r.product_id;
  end if;
  insert into test_ground (customer_id, after, what, a, b)
  select r.customer_id, h.applied, told, a, b from customer_hold h where h.customer_id = r.customer_id;
  return null;
end $$;
create trigger "A log" after insert on car for each row execute function log_ground('car');
create trigger "A log of ends" after delete on car for each row execute function log_ground('car gone');
create trigger "A log" after insert on customer_user for each row execute function log_ground('user');
create trigger "A log of ends" after delete on customer_user for each row execute function log_ground('user gone');
create trigger "A log" after insert or update on product for each row execute function log_ground();
create trigger "A log" after insert or update on service for each row execute function log_ground();
"""
GROUND = "select n, after, what, a, b, at from test_ground where customer_id = $1 order by n"
OPERATIONS = """
select operation_id::text as id, applied, kind, cause, car_id, user_id, assignment_id, request::text as request,
  result::text as result, state, error_message, seq
from operation where customer_id = $1 order by applied nulls last
"""
ASSIGNMENTS = """
select assignment_id, car_id, user_id, to_char(starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start,
  to_char(ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as end, lifetime, renewable_after, external_id
from assignment where customer_id = $1
"""

NO_CAR = "The car does not exist or is not assigned to the customer."
NO_USER = "The user does not exist or is not assigned to the customer."
NO_BOX = "There is no key box installed in the car."
NO_SERVICE = "The key box in the car has no service assigned."
TERMINATED = "The service of the key box in the car is terminated."
GONE = "The assignment does not exist any more."
END_BEFORE_START = "The end lies before the start."
RENEWABLE_TOO_LATE = "renewableAfter must be less than lifetime."
EXTERNAL_ID_TAKEN = "Another assignment has the same externalId."

WEEK = 604_800  # seconds


@dataclass
class Model:
    """The fleet of one customer."""

    cars: set[int] = field(default_factory=set)
    users: set[int] = field(default_factory=set)
    car_of: dict[int, int] = field(default_factory=dict)  # box -> car
    services: dict[int, tuple[int | None, bool]] = field(default_factory=dict)  # service -> box, terminated
    assignments: dict[int, dict[str, Any]] = field(default_factory=dict)
    due: dict[int, str] = field(default_factory=dict)  # assignments whose end must be the next outcome -> cause
    told: dict[int, dict[str, Any]] = field(default_factory=dict)  # the last state of assignments that are gone already

    def change(self, what: str, a: int, b: int | None) -> None:
        """Apply a change of boxes, services, users or cars."""
        if what == "uninstall" and b not in self.cars:
            return  # the deleted car released it
        if what == "car":
            self.cars.add(a)  # operations do not depend on a new car
            return
        assert not self.due, f"{what} {a} before the ends {self.due} were told"
        match what:
            case "user":
                self.users.add(a)
            case "install":
                assert b is not None
                assert b not in self.car_of.values()
                self.car_of[a] = b
            case "uninstall":
                self.car_of.pop(a, None)
                self._end("Uninstallation", "carId", b, at_once=False)
            case "car gone":
                self.cars.remove(a)
                self.car_of = {box: car for box, car in self.car_of.items() if car != a}
                self._end("CarDeleted", "carId", a, at_once=True)
            case "user gone":
                self.users.remove(a)
                self._end("UserRemoved", "userId", a, at_once=True)
            case "service" | "terminated":
                self.services[a] = (b, what == "terminated")
            case _:
                raise AssertionError(what)

    def _end(self, cause: str, member: str, of: int | None, *, at_once: bool) -> None:
        for id, assignment in list(self.assignments.items()):
            if assignment[member] == of:
                self.due[id] = cause
                self.told[id] = self.assignments.pop(id) if at_once else assignment

    def apply(self, row: Mapping[str, Any]) -> None:
        """Apply an operation. The database must have the outcome that the rules give."""
        request = json.loads(row["request"])
        id = row["assignment_id"]
        if self.due or row["cause"] != "Request":
            assert self.due.pop(id, None) == row["cause"], f"{row['applied']}: {row['cause']} of {id}, due {self.due}"
            self.assignments.pop(id, None)
            self._expect(row, None, self.told.pop(id))
            return
        match row["kind"]:
            case "CreateAssignment":
                wanted = {"carId": row["car_id"], "userId": row["user_id"], "externalId": None, **request}
                if wanted["lifetime"] is None:
                    wanted["lifetime"] = WEEK
                failure = self._refused(wanted) or self._taken(wanted)
                if failure is None:
                    assert id not in self.assignments
                    self.assignments[id] = wanted
                self._expect(row, failure, wanted)
            case "UpdateAssignment" if id in self.assignments:
                before = self.assignments[id]
                wanted = before | request
                if wanted["lifetime"] is None:
                    wanted["lifetime"] = WEEK
                failure = self._impossible(wanted)
                if failure is None and self._gives_more(before, wanted):
                    failure = self._refused(wanted)
                failure = failure or self._taken(wanted, id)
                if failure is None:
                    self.assignments[id] = wanted
                self._expect(row, failure, wanted)
            case "DeleteAssignment" if id in self.assignments:
                self._expect(row, None, self.assignments.pop(id))
            case _:
                assert (row["state"], row["error_message"]) == ("Failed", GONE), f"{row['applied']}: {dict(row)}"

    def _refused(self, wanted: Mapping[str, Any]) -> str | None:
        if wanted["carId"] not in self.cars:
            return NO_CAR
        box = next((box for box, car in self.car_of.items() if car == wanted["carId"]), None)
        if box is None:
            return NO_BOX
        served = [terminated for product, terminated in self.services.values() if product == box]
        if not served:
            return NO_SERVICE
        if served[0]:
            return TERMINATED
        return None if wanted["userId"] in self.users else NO_USER

    def _taken(self, wanted: Mapping[str, Any], own: int | None = None) -> str | None:
        """The failure if another assignment has the wanted external id."""
        taken = {other["externalId"] for id, other in self.assignments.items() if id != own}
        return EXTERNAL_ID_TAKEN if wanted["externalId"] is not None and wanted["externalId"] in taken else None

    @staticmethod
    def _impossible(wanted: Mapping[str, Any]) -> str | None:
        if wanted["end"] is not None and wanted["end"] < wanted["start"]:
            return END_BEFORE_START
        if wanted["renewableAfter"] is not None and wanted["renewableAfter"] >= wanted["lifetime"]:
            return RENEWABLE_TOO_LATE
        return None

    @staticmethod
    def _gives_more(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        for_ever = "9999-12-31T23:59:59Z~"
        return (
            wanted["carId"] != before["carId"]
            or wanted["userId"] != before["userId"]
            or wanted["start"] < before["start"]
            or (wanted["end"] or for_ever) > (before["end"] or for_ever)
            or wanted["lifetime"] > before["lifetime"]
        )

    def _expect(self, row: Mapping[str, Any], failure: str | None, shown: Mapping[str, Any]) -> None:
        said = f"{row['applied']}: {dict(row)}"
        assert (row["state"], row["error_message"]) == ("Failed" if failure else "Succeeded", failure), said
        half = shown["lifetime"] // 2
        told = {
            "assignmentId": row["assignment_id"],
            **{name: shown[name] for name in ("carId", "userId", "start", "end", "lifetime")},
            "renewableAfter": half if shown["renewableAfter"] is None else shown["renewableAfter"],
            "externalId": shown["externalId"],
            "metadata": None,
        }
        result = json.loads(row["result"])
        # All cars share by default. A creation that fails early does not know the default of its car
        early = failure is not None and row["kind"] == "CreateAssignment"
        assert result.pop("exclusive") in ((None, False) if early else (False,)), said
        assert result == told, said


def shown(id: int, assignment: Mapping[str, Any]) -> dict[str, Any]:
    """An assignment as a caller of the spec gets it."""
    members = {name: value for name, value in assignment.items() if name != "externalId"}
    half = assignment["lifetime"] // 2
    chosen = assignment["renewableAfter"]
    return {"id": id, **members, "renewableAfter": half if chosen is None else chosen}


def replayed(
    ground: Iterable[Mapping[str, Any]],
    operations: Iterable[Mapping[str, Any]],
    seen: Mapping[str, Mapping[str, Any]],
) -> Model:
    """The model after the whole history. `seen` has the assignment that each operation with `If-Match` was based on."""
    model = Model()
    changes = list(ground)
    for number, row in enumerate(operations, 1):
        assert row["applied"] == number, f"the numbers have no gap: {number} is {dict(row)}"
        while changes and changes[0]["after"] < number:
            change = changes.pop(0)
            model.change(change["what"], change["a"], change["b"])
        if row["id"] in seen:
            id = row["assignment_id"]
            assert seen[row["id"]] == shown(id, model.assignments[id]), f"{number}: {dict(row)}"
        model.apply(row)
    for change in changes:
        model.change(change["what"], change["a"], change["b"])
    assert not model.due, f"never told: {model.due}"
    return model


async def check(sql: Any, customer: int, seen: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Check that a customer's database matches the model of its history.

    No operation of the customer may be pending.
    """
    model = replayed(await sql.fetch(GROUND, customer), await sql.fetch(OPERATIONS, customer), seen or {})
    found = {
        row["assignment_id"]: {
            "carId": row["car_id"], "userId": row["user_id"], "start": row["start"], "end": row["end"],
            "lifetime": row["lifetime"], "renewableAfter": row["renewable_after"],
            "externalId": row["external_id"],
        }
        for row in await sql.fetch(ASSIGNMENTS, customer)
    }  # fmt: skip
    assert found == model.assignments
