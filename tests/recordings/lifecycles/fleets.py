"""Groups, boxes in cars, and users."""

from __future__ import annotations

import json

from tests.recordings.bench import replace
from tests.recordings.script import Script


def groups(script: Script) -> None:
    """Group names in use, groups with members, and members of two groups."""
    fleet = script.fleet
    made = script.made("PUT", "/groups", {"name": "Lived"})["id"]
    for name in ("Lived", "lived", "North", " Lived "):
        script.send("PUT", "/groups", {"name": name})
        script.send("PATCH", f"/groups/{made}", replace("/name", name))
    for kind, number, other in (
        ("car", fleet.cars[0], fleet.neighbour["carId"]),
        ("user", fleet.users[0], fleet.neighbour["userId"]),
        ("service", fleet.services["Telemetry"], fleet.neighbour["serviceId"]),
        ("product", fleet.products["IQ-2001"], fleet.neighbour["productId"]),
    ):
        for value in (number, number, other, 999_999, None, "x"):
            script.send("PUT", f"/groups/{made}/{kind}s", {f"{kind}Id": value})
        script.send("GET", f"/groups/{made}/{kind}s")
        script.send("DELETE", f"/groups/{made}")
        script.send("DELETE", f"/groups/{made}/{kind}s/{number}")
        script.send("DELETE", f"/groups/{made}/{kind}s/{number}", note="once more")
        script.send("GET", f"/groups/{made}/{kind}s", note="empty")
    script.send("GET", f"/groups/{made}?$expand=cars,users,services,products")
    script.send("DELETE", f"/groups/{made}")
    for path in (
        "/groups",
        "/cars",
        "/users",
        "/products",
        "/services",
        "/assignments",
        "/events",
        "/positions",
        "/changes",
        "/operations?$orderby=applied",
        f"/cars/{fleet.cars[0]}",
        f"/cars/{fleet.cars[5]}",
        f"/users/{fleet.users[4]}",
    ):
        script.send("GET", path, caller=script.cast.callers["limited"])


def fitting(script: Script) -> None:
    """Boxes in cars, and services with boxes."""
    fleet = script.fleet
    car, other = fleet.cars[6], fleet.cars[5]
    for body in (
        {"carId": car, "serialNumber": "BX-LONE"},
        {"carId": car, "serialNumber": "BX-SPARE"},
        {"carId": car, "serialNumber": "BX-SPARE"},
        {"carId": other, "serialNumber": "BX-SPARE"},
        {"carId": car, "serialNumber": "BX-1001"},
        {"carId": car, "uniqueId": "U-日本"},
        {"carId": car, "serialNumber": "none"},
        {"carId": 999_999, "serialNumber": "BX-LONE"},
        {"carId": car},
        {"carId": car, "productId": fleet.neighbour["productId"]},
        {"carId": car, "serialNumber": "BX-LONE", "uniqueId": "U-BX-SPARE"},
        {"carId": car, "serialNumber": "IQ-2001"},
    ):
        script.send("PUT", "/installations", body, note=json.dumps(body))
    script.send("GET", f"/cars/{car}/products")
    for body in (
        {"carId": other, "serialNumber": "BX-SPARE"},
        {"carId": car, "serialNumber": "BX-SPARE"},
        {"carId": car, "serialNumber": "BX-SPARE"},
        {"carId": car, "productId": 999_999},
        {"carId": car},
    ):
        script.send("DELETE", "/installations", body, note=json.dumps(body))
    service = fleet.services["Lone service"]
    for method in ("PUT", "DELETE"):
        for body in (
            {"serviceId": service, "serialNumber": "BX-LONE"},
            {"serviceId": service, "serialNumber": "BX-LONE"},
            {"serviceId": service, "serialNumber": "BX-SPARE"},
            {"serviceId": service, "serialNumber": "BX-1001"},
            {"serviceId": fleet.services["Box service 1"], "serialNumber": "BX-LONE"},
            {"serviceId": service},
            {"serviceId": 999_999, "serialNumber": "BX-LONE"},
            {"serviceId": fleet.neighbour["serviceId"], "serialNumber": "BX-LONE"},
        ):
            script.send(method, "/pairings", body, note=json.dumps(body))


def users(script: Script) -> None:
    """Users that are added, removed, added again and erased."""
    data = {"firstName": "Lee", "lastName": "Life"}
    made = script.made("PUT", "/users", {"emailAddress": "lee@example.org", "userData": data, "type": "Normal"})
    user = made["id"]
    for email in (
        "lee@example.org",
        "LEE@example.org",
        "not an address",
        "a@b",
        "x" * 300 + "@example.org",
        "lee@exämple.org",
    ):
        script.send("PUT", "/users", {"emailAddress": email, "userData": data})
    for password in ("", "short", "x" * 251, "a good pass phrase"):
        body = {"emailAddress": "pw@example.org", "userData": data, "type": "Normal", "password": password}
        script.send("PUT", "/users", body, note=f"a password of {len(password)} characters")
        script.send("PUT", "/users", body | {"type": "Anonymous", "emailAddress": "pa@example.org"})
    for caller in (script.cast.owner, script.cast.bob):
        for body in (
            {"userId": user},
            {"emailAddress": "Lee@example.org"},
            {"emailAddress": "nobody@example.org"},
            {},
            {"userId": user, "emailAddress": "lee@example.org"},
        ):
            script.send("PUT", "/users/assignments/customers", body, caller=caller, note=json.dumps(body))
    script.send("GET", f"/users/{user}", caller=script.cast.bob)
    script.send("GET", f"/users/{user}/erasure")
    script.send("DELETE", "/users/assignments/customers", {"userId": user})
    script.send("DELETE", "/users/assignments/customers", {"userId": user}, note="once more")
    script.send("GET", f"/users/{user}")
    script.send("GET", f"/users/{user}/erasure", caller=script.cast.bob)
    script.send("POST", f"/users/{user}/erase", caller=script.cast.bob)
    script.send("GET", f"/users/{user}", caller=script.cast.bob)
    script.send("GET", "/changes?$filter=resource%20eq%20'user'&$select=id,kind,before,after", caller=script.cast.bob)
    gone = script.made("PUT", "/users", {"emailAddress": "gone@example.org", "userData": data})["id"]
    script.send("PUT", "/events", script.bench.event() | {"userId": gone})
    script.send("POST", f"/users/{gone}/erase")
    script.send("POST", f"/users/{gone}/erase", note="once more")
    script.send("GET", "/events?$orderby=id%20desc&$top=1&$expand=user")
