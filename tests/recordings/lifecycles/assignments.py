"""Assignments, requested one by one and in batches."""

from __future__ import annotations

from typing import Any

from tests.recordings.bench import replace
from tests.recordings.script import Script

NEXT_YEAR = "2052-01-01T00:00:00Z"


def assignments(script: Script) -> None:
    """Creation, change and end of assignments, with the outcome of each request."""
    fleet = script.fleet

    def wish(method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        response = script.send(method, path, body, **options)
        operation = response.header("Operation-Id")
        return script.made("GET", f"/operations/{operation}") if operation else {}

    good = {"carId": fleet.cars[7], "userId": fleet.users[2], "start": "2049-01-01T00:00:00Z", "end": NEXT_YEAR}
    made = wish("PUT", "/assignments", good)
    path = f"/assignments/{made['assignmentId']}"
    script.send("GET", path)
    for changes in (
        {"end": None},
        {"end": NEXT_YEAR, "start": "2049-06-01T00:00:00Z"},
        {"carId": fleet.cars[0]},
        {"userId": 999_999},
        {"userId": fleet.users[1]},
        {"carId": fleet.cars[5]},
        {"end": "2040-01-01T00:00:00Z"},
        {"lifetime": 700_000},
        {"renewableAfter": 800_000},
        {"lifetime": 1},
        {"carId": fleet.neighbour["carId"]},
    ):
        wish("PATCH", path, [step for name, value in changes.items() for step in replace(f"/{name}", value)])
        script.send("GET", path)
    for changes in (
        {"end": "2048-01-01T00:00:00Z"},
        {"start": "x"},
        {"start": "2049-01-01"},
        {"start": "2049-01-01T00:00:00"},
        {"start": "2049-01-01T00:00:00.5Z"},
        {"start": "2049-01-01T00:00:00+14:00"},
        {"start": "9999-12-31T23:59:59Z"},
        {"start": "0001-01-01T00:00:00Z"},
        {"lifetime": 604_800},
        {"lifetime": 604_801},
        {"lifetime": 2_419_200},
        {"renewableAfter": 0},
        {"renewableAfter": -1},
        {"lifetime": 700_000, "renewableAfter": 700_000},
        {"carId": 999_999},
        {"userId": 999_999},
        {"carId": fleet.neighbour["carId"]},
        {"userId": fleet.neighbour["userId"]},
        {"carId": fleet.cars[4]},
        {"unknown": 1},
    ):
        wish("PUT", "/assignments", good | changes, note=str(changes))
    wish("PUT", "/assignments", good, caller=script.cast.callers["limited"])
    wish(
        "PUT",
        "/assignments",
        good | {"carId": fleet.cars[0], "userId": fleet.users[1]},
        caller=script.cast.callers["limited"],
    )
    wish("DELETE", path, Prefer="return=representation")
    wish("DELETE", path)
    script.send("GET", path)
    for query in ("state eq 'Failed'", "state eq 'Succeeded' and kind eq 'DeleteAssignment'", "errorCode ne null"):
        query = query.replace(" ", "%20")
        script.send("GET", f"/operations?$filter={query}&$orderby=applied&$expand=car($select=name)")


def batches(script: Script) -> None:
    """Batches of every kind."""
    fleet = script.fleet
    car = {"op": "create", "body": {"name": "Batch car"}}
    user = {
        "op": "create",
        "body": {"emailAddress": "batch@example.org", "userData": {"firstName": "B", "lastName": "A"}},
    }
    wish = {
        "carId": fleet.cars[7],
        "userId": fleet.users[2],
        "start": "2053-01-01T00:00:00Z",
        "end": "2054-01-01T00:00:00Z",
    }
    wanted = {"op": "create", "body": wish}
    wrong = {"op": "create", "body": {"name": ""}}
    bodies: list[dict[str, Any]] = [
        {"kind": "cars", "items": [car, wrong, {"op": "end", "id": 999_999}]},
        {"kind": "cars", "items": [car, wrong], "atomic": True},
        {
            "kind": "cars",
            "items": [{"op": "change", "id": fleet.cars[7], "patch": replace("/model", "Batch")}],
            "dryRun": True,
        },
        {"kind": "cars", "items": [{"op": "change", "id": fleet.neighbour["carId"], "patch": replace("/model", "B")}]},
        {"kind": "cars", "items": [{"op": "change", "id": fleet.cars[7], "patch": [{"op": "x"}]}, {"op": "other"}]},
        {"kind": "users", "items": [user, user, {"op": "end", "id": 999_999}]},
        {
            "kind": "groups",
            "items": [{"op": "create", "body": {"name": name}} for name in ("Batch group", "North", "")],
        },
        {"kind": "assignments", "items": [wanted], "conflicts": "report", "dryRun": True},
        {"kind": "assignments", "items": [wanted], "conflicts": "refuse"},
        {"kind": "assignments", "items": [wanted, wanted], "conflicts": "refuse", "dryRun": True},
        {"kind": "assignments", "items": [wanted], "conflicts": "refuse", "atomic": True},
        {
            "kind": "assignments",
            "items": [{"op": "end", "id": 999_999}, {"op": "create", "body": wish | {"carId": 999_999}}],
        },
        {"kind": "others", "items": []},
        {"kind": "cars", "items": []},
        {"kind": "cars"},
        {"items": [car]},
        {"kind": "cars", "items": [car], "conflicts": "allow"},
        {"kind": "cars", "items": [car] * 1_001},
        {"kind": "cars", "items": [car], "unknown": 1},
        {"kind": "cars", "items": [car], "atomic": "yes"},
    ]
    for number, body in enumerate(bodies):
        script.send("POST", "/batch", body, note=f"batch {number}")
    for name in ("manager", "dispatcher", "technician", "limited", "viewer"):
        for number in (0, 5, 7):
            script.send(
                "POST",
                "/batch",
                bodies[number] | {"dryRun": True},
                caller=script.cast.callers[name],
                note=f"batch {number}",
            )
    script.send("POST", "/batch?$select=id", bodies[0])
