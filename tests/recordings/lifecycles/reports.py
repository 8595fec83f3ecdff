"""Reports of units, and the contents of logs."""

from __future__ import annotations

import json
from typing import Any

from tests.recordings.script import Script


def telemetry(script: Script) -> None:
    """Deliveries of samples and events by units, and reads of them."""
    fleet, gateway = script.fleet, script.cast.callers["gateway"]
    unit = {"serialNumber": "IQ-2001", "carDataReadTime": fleet.moment(130)}
    lines: list[Any] = [
        unit,
        unit | {"odometer": 50_000.5},
        unit | {"odometer": -1},
        unit | {"currentLatitude": 95, "currentLongitude": 0},
        unit | {"currentLatitude": 5},
        unit | {"colour": "red"},
        {"serialNumber": "IQ-2001"},
        {"carDataReadTime": fleet.moment(1)},
        unit | {"serialNumber": "none"},
        unit | {"serialNumber": "BX-1001"},
        unit | {"serialNumber": "IQ-BOB"},
        unit | {"carDataReadTime": "2041-01-01T00:00:00Z"},
        unit | {"carDataReadTime": "2001-01-01T00:00:00Z"},
        unit | {"carDataReadTime": "x"},
        unit | {"rpm": 1.5},
        unit | {"dtc": [{"key": "P1"}]},
        unit | {"rpm": 900, "vin": "V"},
        [],
        1,
        None,
    ]
    for caller in (gateway, script.cast.callers["unit"], script.cast.callers["gateway of bob"]):
        script.send("POST", "/ingest/telemetry", lines, caller=caller)
    text = b'{"serialNumber": "IQ-2001"\n\n{"x": 1}\n\xff\n' + json.dumps(unit | {"currentSpeed": 12.5}).encode()
    script.send("POST", "/ingest/telemetry", text, caller=gateway, Content_Type="application/x-ndjson")
    event = script.bench.event()
    events = [
        event | {"clientId": "a"},
        event | {"clientId": "a"},
        event | {"clientId": "a", "type": "CarOpened"},
        event,
        event | {"clientId": "b", "carId": 999_999},
        event | {"clientId": "c", "userId": 999_999},
        event | {"clientId": ""},
        event | {"clientId": "d", "type": "Other"},
        event | {"clientId": "e", "dateTime": "x"},
        event | {"clientId": "f", "utcDateTime": "2041-01-01T00:00:00Z"},
        event | {"clientId": "g", "latitude": 1},
    ]
    for caller in (gateway, script.cast.callers["unit"], script.cast.callers["gateway of bob"]):
        script.send("POST", "/ingest/events", events, caller=caller)
    for car in (*fleet.cars[:4], fleet.cars[7]):
        for part in (
            "telemetry",
            "location",
            f"location/{fleet.moment(33)}",
            "location/2010-01-01T00:00:00Z",
            "location/x",
        ):
            script.send("GET", f"/cars/{car}/{part}")
    begin, end = fleet.moment(0), fleet.moment(120)
    for query in (
        "",
        f"from={begin}",
        f"to={end}",
        f"from={begin}&to={end}",
        f"from={end}&to={begin}",
        f"from={begin}&to={end}&points=3",
        f"from={begin}&to={end}&points=0",
        f"from={begin}&to={end}&points=x",
        "from=x",
        "from=2015-01-01T00:00:00Z&to=2016-01-01T00:00:00Z",
    ):
        if ("from" in query and "to" in query) or "x" in query:
            script.send("GET", f"/cars/{fleet.cars[0]}/track?{query}")
            for fields in (
                "",
                "&fields=odometer",
                "&fields=odometer,currentSpeed,batteryVoltage",
                "&fields=none",
                "&fields=",
            ):
                script.send("GET", f"/cars/{fleet.cars[0]}/samples?{query}{fields}")
    script.send("GET", "/positions?$orderby=carId")
    script.send("GET", "/retention")


def access(script: Script) -> None:
    """The access history: who could open a car, and when."""
    fleet = script.fleet
    for path in (f"/cars/{fleet.cars[0]}/access", f"/users/{fleet.users[1]}/access", f"/cars/{fleet.cars[7]}/access"):
        for query in (
            "",
            "?at=2041-01-01T12:00:00Z",
            "?at=2016-01-01T00:00:00Z",
            "?from=2015-01-01T00:00:00Z&to=2045-01-01T00:00:00Z",
            "?from=2045-01-01T00:00:00Z&to=2015-01-01T00:00:00Z",
            "?at=x",
            "?from=2015-01-01T00:00:00Z",
            "?at=2016-01-01T00:00:00Z&from=2015-01-01T00:00:00Z",
            "?to=2015-01-01T00:00:00Z",
            "?at=2016-01-01",
        ):
            script.send("GET", path + query)
            script.send("GET", path + query, caller=script.cast.callers["limited"])


def changes(script: Script) -> None:
    """The change log, its pages and its proofs."""
    script.fleet.checkpoint()
    for query in (
        "?$top=0",
        "?$top=3",
        "?$filter=id%20gt%203&$top=3",
        "?$filter=id%20gt%2099999",
        "?$filter=id%20gt%2099999&wait=1",
        "?wait=0",
        "?wait=x",
        "?wait=61",
        "?epoch=00000000-0000-4000-8000-000000000000",
        "?epoch=x",
        "?$orderby=id%20desc&$top=2",
        "?$filter=kind%20eq%20'car.created'&$top=2&$select=id,kind,after",
        "?$filter=actor/type%20eq%20'operator'&$top=2",
        "?$search=North&$top=2",
        "?$count=true&$top=1",
    ):
        for caller in (script.cast.owner, script.cast.callers["limited"], script.cast.bob):
            script.send("GET", f"/changes{query}", caller=caller)
    for path in (
        "/changes/checkpoint",
        "/changes/checkpoint?since=1",
        "/changes/checkpoint?since=99999",
        "/changes/checkpoint?since=x",
        "/changes/1/proof",
        "/changes/2/proof",
        "/changes/99999/proof",
    ):
        for caller in (script.cast.owner, script.cast.callers["limited"], script.cast.bob):
            script.send("GET", path, caller=caller)
    # Each type of change in its published form
    rows = script.session.ask(script.cast.owner, "GET", "/changes?$top=10000")
    first = {row["kind"]: row["id"] for row in reversed(rows)}
    for kind in sorted(first):
        script.send("GET", f"/changes?$filter=id%20eq%20{first[kind]}", note=kind)
