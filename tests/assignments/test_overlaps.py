"""Overlap detection, compared day by day with the rule: random batches over a random fleet."""

from __future__ import annotations

import random
from typing import Any

import pytest

from keyrack.assignments import overlaps
from tests.assignments import model
from tests.support.people import Person

ROUNDS = 25  # batches, each of two cars whose days are nearly full
DAYS = 12  # days of the periods; a period may have no length

Span = tuple[int, int, int | None]  # car; first day; the day before which it ends, or None


def moments(span: Span) -> set[tuple[int, int]]:
    """The days of a period. The last day represents all later ones."""
    car, start, end = span
    return {(car, day) for day in range(start, DAYS + 2 if end is None else end)}


def day(number: int | None) -> str | None:
    return None if number is None else f"2026-01-{number + 1:02}T00:00:00Z"


def number(day: str | None) -> int | None:
    return None if day is None else int(day[8:10]) - 1


class Fleet:
    """The rule: a request conflicts with an assignment if it takes new time that overlaps it."""

    def __init__(self, spans: dict[int, Span]) -> None:
        self.spans: dict[str, Span] = {f"id {id}": span for id, span in spans.items()}

    def overlapping(self, span: Span, but: str | None = None) -> set[str]:
        return {who for who, other in self.spans.items() if who != but and moments(other) & moments(span)}

    def does(self, place: int, item: dict[str, Any], how: str) -> tuple[int, set[str]]:
        """The item's status, and the ids that it overlaps."""
        if item["op"] == "create":
            body, who, before = item["body"], f"item {place}", None
            span: Span = (body["carId"], number(body["start"]) or 0, number(body["end"]))
        else:
            who = f"id {item['id']}"
            before = self.spans.get(who)
            if item["op"] == "end" or before is None:
                self.spans.pop(who, None)
                return 204, set()
            changes = {step["path"][1:]: step["value"] for step in item["patch"]}
            start, end = changes.get("start", day(before[1])), changes.get("end", day(before[2]))
            span = (changes.get("carId", before[0]), number(start) or 0, number(end))
        found = self.overlapping(span, who)
        anew = before is None or not (
            before[0] == span[0] and before[1] <= span[1] and (before[2] is None or (span[2] or 99) <= before[2])
        )
        if how == "refuse" and found and anew:
            return 409, found
        self.spans[who] = span
        return 204, found


def random_items(some: random.Random, cars: list[int], users: list[int], ids: list[int]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for _ in range(some.randrange(2, 14)):
        start = some.randrange(DAYS)
        end = some.choice((None, start, *range(start + 1, DAYS + 1)))
        kind = some.choice(("create", "create", "change", "change", "end"))
        if kind == "create" or not ids:
            body = {"carId": some.choice(cars), "userId": some.choice(users), "start": day(start), "end": day(end)}
            items.append({"op": "create", "body": body})
        elif kind == "end":
            items.append({"op": "end", "id": some.choice(ids)})
        else:
            values = {"start": day(start), "end": day(end), "carId": some.choice(cars), "userId": some.choice(users)}
            names = some.choice((["start", "end"], ["carId"], ["carId", "start", "end"], ["userId"], ["end", "start"]))
            steps = [{"op": "replace", "path": f"/{name}", "value": values[name]} for name in names]
            items.append({"op": "change", "id": some.choice(ids), "patch": steps})
    return items


@pytest.mark.parametrize("how", ["report", "refuse"])
def test_detected_overlaps_match_the_rule(how: str, carol: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    some = random.Random(seed)
    cars, users = [carol.car_with_box() for _ in range(2)], [carol.user() for _ in range(2)]
    for _ in range(ROUNDS):
        monkeypatch.setattr(overlaps, "BLOCK", some.choice((1, 2, 3, 64)))
        monkeypatch.setattr(overlaps, "READ", some.choice((1, 2, 5)))
        # A batch that detects overlaps applies pending operations first
        nothing = {"kind": "assignments", "items": [{"op": "end", "id": 2147483647}], "conflicts": "report"}
        assert carol.post("/batch", nothing).status_code == 200
        rows = carol.sql.rows(model.ASSIGNMENTS, carol.customer)
        fleet = Fleet(
            {row["assignment_id"]: (row["car_id"], number(row["start"]) or 0, number(row["end"])) for row in rows}
        )
        items = random_items(some, cars, users, [row["assignment_id"] for row in rows])
        answer = carol.post("/batch", {"kind": "assignments", "items": items, "conflicts": how})
        carol.sql.execute("delete from rate_limit where key = $1", f"assignments:{carol.customer}")
        for place, (item, result) in enumerate(zip(items, answer.json()["results"], strict=True)):
            told = {
                f"item {one['item']}" if "item" in one else f"id {one['assignmentId']}"
                for one in result.get("conflicts", ())
            }
            status, expected = fleet.does(place, item, how)
            assert result["status"] == status, (place, item, result)
            if "moreConflicts" in result:
                assert told < expected, (place, item, result)
            else:
                assert told == expected, (place, item, result)
