"""Helpers for tests that send batches."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx

from keyrack.assignments.endpoints.batch_models import ROWS
from tests.support.people import Person

Json = dict[str, Any]

START, END = "2026-01-01T08:00:00Z", "2026-01-05T08:00:00Z"
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
NO_ASSIGNMENT = "Unable to find an assignment for the given assignmentId which is assigned to the given customerId."
NO_BOX = "There is no key box installed in the car."
OVERLAP = "The car has another assignment in this time range."
NOBODY = 2147483647
HEAD = "Couldn't carry out the batch. "


def create(**body: Any) -> Json:
    return {"op": "create", "body": body}


def change(id: int, **values: Any) -> Json:
    return {
        "op": "change",
        "id": id,
        "patch": [{"op": "replace", "path": f"/{n}", "value": v} for n, v in values.items()],
    }


def end(id: int) -> Json:
    return {"op": "end", "id": id}


def send(person: Person, kind: str, *items: Json, status: int = 200, **members: Any) -> list[Json]:
    """Send a batch and return its results. Checks `done` and `refused`."""
    headers = members.pop("headers", {})
    answer = person.post("/batch", {"kind": kind, "items": list(items), **members}, headers=headers)
    assert answer.status_code == status, answer.text
    told = answer.json()
    results = told["results"]
    assert len(results) == len(items)
    bad = sum(result["status"] >= 400 and result["status"] != 424 for result in results)
    done = sum(result["status"] < 400 for result in results)
    assert (told["done"], told["refused"]) == (done, bad)
    return results


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest().upper()


def statuses(results: list[Json]) -> list[int]:
    return [result["status"] for result in results]


def single(person: Person, kind: str, item: Json, **options: Any) -> httpx.Response:
    """Send an item as its single request."""
    row = ROWS[kind, item["op"]]
    path = row.path.format(**dict.fromkeys(row.parameters, item.get("id")))
    body = item.get("body", item.get("patch"))
    if row.method == "DELETE":
        body = None if row.body is None else {"userId": item["id"]}
    return person.call(row.method, path, body, **options)


class Garage:
    """A car with a box, and a user for its assignments."""

    def __init__(self, person: Person) -> None:
        self.person, self.car, self.user = person, person.car_with_box(), person.user()

    def wants(self, start: int, end: int | None, **members: Any) -> Json:
        """An item that creates an assignment, with days of January as start and end."""
        body = {"carId": self.car, "userId": self.user, "start": day(start), "end": end and day(end)}
        return create(**body | members)

    def send(self, *items: Json, **members: Any) -> list[Json]:
        return send(self.person, "assignments", *items, **members)


def day(number: int) -> str:
    return f"2026-01-{number:02}T00:00:00Z"


def told(result: Json) -> list[tuple[str, int]]:
    """The overlaps in an item's result."""
    return [
        ("item", one["item"]) if "item" in one else ("id", one["assignmentId"]) for one in result.get("conflicts", ())
    ]
