"""The pages of the console, in both languages, for several roles."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tests.recordings.bench import Bench, replace
from tests.recordings.cast import ALICE, BOB, PASSWORD, address
from tests.recordings.script import ORIGIN, Script, browser
from tests.recordings.session import Caller

PUBLIC = ("/sign-in", "/sign-in/second", "/invitation", "/forgot", "/password", "/sign-in/callback", "/nothing", "")
# Pages of a customer. Names in braces are ids of the fleet
PAGES = [
    "settings",
    "settings/managers",
    "settings/managers/invite",
    "settings/managers/{manager}/groups",
    "settings/managers/{manager}/remove",
    "settings/accounts",
    "settings/clients",
    "settings/clients/new",
    "settings/clients/{client}",
    "settings/clients/{client}/change",
    "settings/clients/{client}/delete",
    "settings/factors",
    "help",
    "help/reference",
    "choices/cars",
    "choices/users",
    "choices/brands",
    "choices/products",
    "cars",
    "cars?q=pool",
    "cars?sort=-name",
    "cars.csv",
    "users",
    "users.csv",
    "groups",
    "groups.csv",
    "boxes",
    "boxes.csv",
    "services",
    "services.csv",
    "events",
    "events.csv",
    "operations",
    "operations.csv",
    "assignments/list",
    "assignments/list.csv",
    "deliveries",
    "deliveries.csv",
    "changes",
    "changes.csv",
    "cars/new",
    "groups/new",
    "assignments",
    "assignments/new",
    "assignments/new/check",
    "assignments/{assignment}",
    "assignments/{assignment}/change",
    "assignments/{assignment}/change/check",
    "assignments/{assignment}/end",
    "operations/{operation}",
    "operations/outcomes",
    "cars/{car}/track",
    "assignments/board?from=2041-01-01",
    "assignments/board?from=2015-03-01&days=28",
    "cars/{quiet}",
    "cars/{car}/delete",
    "changes/{change}",
    "cars/{car}/access",
    "users/{user}/access",
    "cars/{car}/install",
    "cars/{car}/products/{product}/uninstall",
    "webhooks",
    "webhooks/{webhook}",
    "webhooks/{webhook}/delete",
    "webhooks/{webhook}/replay",
    "webhooks/new",
    "webhooks/{webhook}/change/url",
    "webhooks/{webhook}/change/kinds",
    "webhooks/{webhook}/deliveries/{delivery}",
    "users/new",
    "users/link",
    "users/{user}",
    "users/{user}/remove",
    "users/removed",
    "users/{user}/erase",
    "users/erased",
    "users/{user}/phones/{device}/remove",
    "groups/{group}",
    "groups/{group}/delete",
    "groups/{group}/add/cars",
    "groups/{group}/add/users",
    "key-forms",
    "key-forms?brand=VW",
    "nothing",
    "cars/999999",
    "users/x",
]
FORMS: list[tuple[str, dict[str, str]]] = [
    ("cars/new", {"name": "Console car", "brand": "VW"}),
    ("cars/new", {"name": ""}),
    ("groups/new", {"name": "Console group"}),
    ("groups/new", {"name": "North"}),
    ("users/new", {"first_name": "C", "last_name": "U", "email": "console@example.org"}),
    ("users/new", {}),
    ("users/link", {"email": "nobody@example.org"}),
    ("assignments/new", {}),
    ("webhooks/new", {"url": "x"}),
    ("webhooks/{webhook}/test", {}),
    ("cars/{car}/facts/model", {"value": "Console"}),
    ("cars/{car}/facts/unknown", {"value": "x"}),
    ("settings/preferences", {"language": "en", "theme": "dark", "time_zone": "Europe/Berlin"}),
    ("settings/password", {"current_password": "wrong", "new_password": "short"}),
    ("settings/clients/new", {}),
    ("settings/managers/invite", {"email": "x", "role": "Viewer"}),
    ("assignments/{assignment}/end", {}),
    ("cars/{car}/install", {}),
    ("users/{user}/erase", {}),
    ("groups/{group}/remove/cars", {}),
]


def run(bench: Bench) -> None:
    """Request every page, and send valid and invalid forms."""
    script = Script(bench, "Console front")
    ids = _ids(bench)
    for name in ("owner", "viewer"):
        chosen = {"language": None, "timeZone": "Europe/Berlin", "theme": None}
        bench.session.ask(bench.cast.callers[name], "PUT", "/me/preferences", chosen)
    front(script)
    for section, name, language in (
        ("Console in English", "owner", "en"),
        ("Console in German", "owner", "de"),
        ("Console of a viewer", "viewer", "en"),
        ("Console of a group-limited manager", "limited", "de"),
        ("Console without a role", "roleless", "en"),
    ):
        script = Script(bench, section)
        visitor = browser(bench, name, language=language)
        script.send("GET", "/console", caller=visitor, base="")
        script.send("GET", f"/console/{ALICE}", caller=visitor, base="")
        script.send("GET", f"/console/{BOB}/cars", caller=visitor, base="")
        for page in PAGES:
            script.send("GET", f"/console/{ALICE}/{page.format(**ids)}", caller=visitor, base="")
    forms(Script(bench, "Console forms"), ids)


def front(script: Script) -> None:
    """Public pages, sign-in and sign-out."""
    for language in ("en", "de", "fr, de;q=0.5"):
        nobody = Caller("nobody", {"Accept-Language": language, "Origin": ORIGIN})
        for page in PUBLIC:
            script.send("GET", f"/console{page}", caller=nobody, base="", note=language)
        script.send("GET", f"/console/{ALICE}/cars", caller=nobody, base="", note=language)
        for form in ({"username": address("viewer"), "password": "wrong"}, {"username": "x", "password": "x"}, {}):
            script.send("POST", "/console/sign-in", urlencode(form), caller=nobody, base="", note=language)
        script.send("POST", "/console/invitation", "code=wrong", caller=nobody, base="", note=language)
        script.send("POST", "/console/password", "code=wrong", caller=nobody, base="", note=language)
        script.send("POST", "/console/forgot", "username=nobody@example.com", caller=nobody, base="", note=language)
    stranger = Caller("a page elsewhere", {"Origin": "https://evil.example"})
    form = urlencode({"username": address("viewer"), "password": PASSWORD})
    script.send("POST", "/console/sign-in", form, caller=stranger, base="")
    script.send("POST", "/console/sign-in", form, caller=Caller("nobody", {}), base="")
    script.send("POST", "/console/sign-in", form, caller=Caller("nobody", {"Origin": ORIGIN}), base="", note="right")
    visitor = browser(script.bench, "viewer")
    script.send(
        "POST",
        "/console/sign-out",
        "",
        caller=stranger.with_headers("a page elsewhere", {**visitor.headers, **stranger.headers}),
        base="",
    )
    script.send("POST", "/console/sign-out", "", caller=visitor, base="")
    script.send("GET", f"/console/{ALICE}/cars", caller=visitor, base="", note="signed out")


def forms(script: Script, ids: dict[str, Any]) -> None:
    """Forms of an owner and of a viewer."""
    for name in ("owner", "viewer"):
        visitor = browser(script.bench, name)
        for page, form in FORMS:
            path = f"/console/{ALICE}/{page.format(**ids)}"
            script.send("POST", path, urlencode(form), caller=visitor, base="", note=json.dumps(form))
        elsewhere = visitor.with_headers(f"{name} from a page elsewhere", {"Origin": "https://evil.example"})
        script.send("POST", f"/console/{ALICE}/cars/new", "name=x", caller=elsewhere, base="")


def _ids(bench: Bench) -> dict[str, Any]:
    """The ids of the fleet under the parameter names of pages."""
    bench.session.ask(bench.cast.owner, "PATCH", f"/cars/{bench.fleet.cars[0]}", replace("/model", "Golf"))
    ids = bench.fleet.ids
    names = {
        "car": "carId",
        "user": "userId",
        "group": "groupId",
        "product": "productId",
        "assignment": "assignmentId",
        "webhook": "webhookId",
        "delivery": "deliveryId",
        "operation": "operationId",
        "manager": "managerId",
        "client": "clientId",
        "change": "changeId",
        "device": "deviceId",
        "request": "requestId",
    }
    # The page of a car without a unit, because charts of the last days depend on the hour
    return {name: ids[key] for name, key in names.items()} | {"quiet": bench.fleet.cars[1]}
