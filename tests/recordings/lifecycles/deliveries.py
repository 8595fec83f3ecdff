"""Webhooks and streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.recordings.bench import replace
from tests.recordings.fleet import PAST
from tests.recordings.script import Script

NEXT_YEAR = "2052-01-01T00:00:00Z"


def webhooks(script: Script) -> None:
    """Deliveries that succeed, fail and are repeated."""
    receiver = script.fleet.receiver
    for body in (
        {"url": "ftp://example.com"},
        {"url": "http://10.0.0.1/"},
        {"url": "http://[::1]/"},
        {"url": "x"},
        {"url": ""},
        {"url": f"http://user:pw@{receiver}/"},
        {"url": f"http://{receiver}/", "kinds": []},
        {"url": f"http://{receiver}/", "kinds": ["unknown"]},
        {"url": f"http://{receiver}/", "kinds": ["assignment.create"]},
        {"url": f"http://{receiver}/", "kinds": ["car.*", "car.created"]},
        {"url": f"http://{receiver}/", "secret": "ü"},
        {"url": f"http://{receiver}/", "secret": "a text"},
        {"url": f"http://{receiver}/", "enabled": None},
    ):
        response = script.send("PUT", "/webhooks", body)
        if response.status == 201:
            script.send("DELETE", f"/webhooks/{json.loads(response.body)['id']}")
    hooks: list[int] = []
    for name in ("hook", "fails", "gone"):
        begin = datetime.now(UTC).isoformat()
        made = script.made(
            "PUT", "/webhooks", {"url": f"http://{receiver}/{name}", "kinds": ["car.*"], "secret": "a text"}
        )
        hooks.append(made["id"])
        path = f"/webhooks/{made['id']}"
        tested = script.made("POST", f"{path}/test")["id"]
        car = script.made("PUT", "/cars", {"name": f"Car that {name} hears of"})["id"]
        script.send("DELETE", f"/cars/{car}")
        script.send("GET", path)
        script.send("GET", f"{path}/deliveries?$orderby=id")
        script.send("GET", f"{path}/deliveries?$filter=state%20eq%20'Dead'&$count=true&$top=1")
        script.send("POST", f"{path}/deliveries/{tested}/replay")
        script.send("POST", f"{path}/deliveries/999999/replay")
        script.send("POST", f"{path}/replay", {"from": PAST, "to": "2016-01-01T00:00:00Z"})
        script.send("POST", f"{path}/replay", {"from": NEXT_YEAR, "to": PAST})
        script.send("POST", f"{path}/replay", {"from": begin, "undelivered": True})
        script.send("GET", path, note="after the replay")
        script.send("POST", f"{path}/rotate-secret")
        script.send("GET", path, note="after the rotation")
        script.send("PATCH", path, replace("/enabled", False))
        script.send("POST", f"{path}/test", note="disabled")
        script.send("POST", f"{path}/replay", {"from": begin}, note="disabled")
        script.send("PATCH", path, replace("/url", f"http://{receiver}/hook"))
        script.send("PATCH", path, replace("/kinds", ["assignment.create"]))
        script.send("PATCH", path, replace("/secret", None))
    script.send("GET", "/deliveries?$orderby=id&$select=id,webhookId,type,state,attempts,status,error")
    for caller in ("limited", "auditor", "manager"):
        script.send("GET", "/deliveries?$top=1", caller=script.cast.callers[caller])
    for hook in hooks:
        script.send("DELETE", f"/webhooks/{hook}")
        script.send("GET", f"/webhooks/{hook}/deliveries", note="removed")


def streams(script: Script) -> None:
    """Streams of changes, up to their first event."""
    script.send("GET", "/live")
    for query in ("topics=cars", "topics=cars,users", "topics=unknown", "topics=", "other=1"):
        script.send("GET", f"/live?{query}")
        script.send("HEAD", f"/live?{query}")
        script.send("GET", f"/live?{query}", caller=script.cast.callers["technician"])
    script.send("GET", "/live?topics=cars", Last_Event_ID="x", until=b"data: gap\n")
    events: dict[str, Any] = {"Accept": "text/event-stream"}
    script.send("GET", "/changes?$filter=id%20gt%200", **events, Last_Event_ID="0", until=b"\n\n")
    script.send("GET", "/changes", **events, Last_Event_ID="x", until=b"\n\n")
    script.send("GET", "/changes?$top=1", **events, until=b"\n\n")
