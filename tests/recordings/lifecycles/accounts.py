"""Machine clients, managers, tokens, second factors and sessions."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tests.recordings.bench import replace
from tests.recordings.cast import ALICE, PASSWORD, address
from tests.recordings.fleet import PAST
from tests.recordings.script import Script, browser, totp
from tests.recordings.wire import Response


def clients(script: Script) -> None:
    """Machine clients, their secrets and their tokens."""
    keyed = script.cast.keyed

    def grant(client: dict[str, Any], note: str, **members: str) -> Any:
        form = {
            "grant_type": "client_credentials",
            "client_id": client["clientId"],
            "client_secret": client["clientSecret"],
        }
        return script.send("POST", "/oauth2/token", urlencode(form | members), caller=keyed, note=note)

    made = script.made("PUT", "/clients", {"name": "Lived", "scopes": ["cars:read", "users:write"]})
    script.session.masks.name(made["clientId"], "id of a client")
    script.session.masks.name(made["clientSecret"], "secret of a client")
    path = f"/clients/{made['id']}"
    for scope in (None, "", "cars:read", "cars:read users:read", "cars:write", "unknown", "cars:read  users:write"):
        grant(made, f"scope {scope!r}", **({} if scope is None else {"scope": scope}))
    grant(made | {"clientSecret": "wrong"}, "a wrong secret")
    grant(made | {"clientId": "nobody"}, "an unknown client")
    second = script.made("PUT", f"{path}/secrets")
    script.session.masks.name(second["clientSecret"], "second secret of a client")
    grant(made | {"clientSecret": second["clientSecret"]}, "the second secret")
    script.send("PUT", f"{path}/secrets", note="a third one")
    script.send("GET", f"{path}/secrets?$orderby=id")
    token = json.loads(grant(made, "a token to be revoked").body)["access_token"]
    script.session.masks.name(token, "token to be revoked")
    for form in (
        {"token": token},
        {"token": token, "client_id": made["clientId"], "client_secret": made["clientSecret"]},
        {"token": token, "client_id": made["clientId"], "client_secret": "wrong"},
        {},
        {"token": ""},
    ):
        script.send("POST", "/oauth2/revoke", urlencode(form), caller=keyed, note=", ".join(form))
    caller = keyed.with_headers("revoked token", {"Authorization": f"Bearer {token}", "Customer-ID": str(ALICE)})
    script.send("GET", "/cars", caller=caller)
    for steps in (
        replace("/scopes", ["cars:read"]),
        replace("/scopes", []),
        replace("/scopes", ["managers:write"]),
        replace("/expires", "2041-01-01T00:00:00Z"),
        replace("/expires", "2001-01-01T00:00:00Z"),
        [{"op": "remove", "path": "/expires"}],
        replace("/enabled", False),
        replace("/name", ""),
    ):
        script.send("PATCH", path, steps)
        script.send("GET", path)
    grant(made, "disabled or expired")
    script.send("DELETE", f"{path}/secrets/{second.get('id', 0)}")
    script.send("DELETE", path)
    grant(made, "removed")
    for body in (
        {"name": "", "scopes": ["cars:read"]},
        {"name": "x", "scopes": ["none"]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["cars:read", "cars:read"]},
        {"name": "x", "scopes": ["cars:read"], "expires": PAST},
    ):
        script.send("PUT", "/clients", body)


def managers(script: Script) -> None:
    """Managers: invitations, roles and removal."""
    fleet, ids = script.fleet, script.cast.manager_ids
    for body in (
        {"emailAddress": "new@example.com", "role": "Dispatcher", "groups": [fleet.groups[0]]},
        {"emailAddress": "new@example.com", "role": "Viewer"},
        {"emailAddress": address("viewer"), "role": "Viewer"},
        {"emailAddress": "x", "role": "Viewer"},
        {"emailAddress": "y@example.com", "role": "King"},
        {"emailAddress": "y@example.com", "role": "Owner", "groups": [fleet.groups[0]]},
        {"emailAddress": "y@example.com", "role": "Viewer", "groups": [fleet.neighbour["groupId"]]},
        {"emailAddress": "y@example.com", "role": "Viewer", "groups": []},
        {"emailAddress": "y@example.com", "role": None},
    ):
        script.send("PUT", "/managers", body)
    script.send("GET", "/invitations?$orderby=id")
    path = f"/managers/{ids['changed']}"
    for steps in (
        replace("/role", "Dispatcher"),
        replace("/groups", [fleet.groups[0]]),
        replace("/groups", [999_999]),
        replace("/groups", []),
        replace("/role", "Owner"),
        replace("/groups", None),
        replace("/role", "Owner"),
        replace("/groups", [fleet.groups[0]]),
        replace("/role", "x"),
        replace("/role", "Viewer"),
    ):
        script.send("PATCH", path, steps)
        script.send("GET", path)
    second = ids["second factor"]
    script.send("PATCH", f"/managers/{second}", replace("/role", "Viewer"), note="one owner is left")
    script.send("PATCH", f"/managers/{ids['owner']}", replace("/role", "Viewer"), note="the last owner")
    script.send("DELETE", f"/managers/{ids['owner']}", note="the last owner")
    script.send("PATCH", f"/managers/{second}", replace("/role", "Owner"), note="two owners again")
    script.send("DELETE", path)
    script.send("DELETE", path, note="once more")
    script.send("GET", "/managers?$orderby=id")


def tokens(script: Script) -> None:
    """Successful and failing token requests."""
    keyed, nobody = script.cast.keyed, script.cast.nobody
    good = {"grant_type": "password", "username": address("viewer"), "password": PASSWORD}
    for caller in (keyed, nobody):
        for form in (
            good,
            good | {"password": "wrong"},
            good | {"username": "nobody@example.com"},
            good | {"grant_type": "x"},
            {"grant_type": "password"},
            {"grant_type": "client_credentials"},
            {},
            good | {"scope": "cars:read"},
            good | {"password": ""},
            good | {"username": address("viewer").upper()},
        ):
            for base in ("/v3", ""):
                script.send("POST", "/oauth2/token", urlencode(form), caller=caller, base=base)
    script.send("POST", "/oauth2/token", urlencode(good) + "&password=x", caller=keyed, note="the password twice")
    script.send("POST", "/oauth2/token", "x=" + "y" * 33_000, caller=keyed, note="a long form")
    script.send("POST", "/oauth2/token", "%ff=%ff", caller=keyed)
    script.send("POST", "/oauth2/token", b'{"grant_type": "password"}', caller=keyed, Content_Type="application/json")
    basic = "Basic bm9ib2R5Ong="
    script.send("POST", "/oauth2/token", "grant_type=client_credentials", caller=keyed, Authorization=basic)
    script.send("POST", "/oauth2/token", "grant_type=client_credentials&client_id=x", caller=keyed, Authorization=basic)
    for accept in ("application/problem+json", "text/plain"):
        script.send("POST", "/oauth2/token", urlencode(good | {"password": "wrong"}), caller=keyed, Accept=accept)
    for number in range(14):
        form = urlencode(good | {"username": "guessed@example.com", "password": f"guess {number}"})
        script.send("POST", "/oauth2/token", form, caller=keyed, note=f"guess {number}")
    script.send("POST", "/oauth2/token", form, caller=keyed, Accept="application/problem+json")


def factors(script: Script) -> None:
    """A second factor: setup, requirement, use and removal."""
    caller = script.cast.callers["second factor"]

    def send(method: str, path: str, body: Any = None, note: str = "") -> Response:
        return script.send(method, path, body, caller=caller, note=note)

    for path in ("/me/factors", "/me/passkeys", "/factor-rules", "/me", "/me/identities"):
        send("GET", path)
    send("POST", "/me/recovery-codes", note="without a factor")
    send("PUT", "/factor-rules", {"roles": ["Viewer"]}, note="without a factor")
    send("PUT", "/me/totp", {"code": "123456"}, note="before the beginning")
    secret = json.loads(send("POST", "/me/totp").body)["secret"]
    send("PUT", "/me/totp", {"code": "12345"})
    send("PUT", "/me/totp", {"code": ""})
    code = totp(secret, -1)
    script.session.masks.name(code, "code")
    send("PUT", "/me/totp", {"code": code}, note="the right code")
    for method, path in (
        ("POST", "/me/totp"),
        ("DELETE", "/me/totp"),
        ("POST", "/me/recovery-codes"),
        ("GET", "/me/factors"),
        ("POST", "/me/passkeys/options"),
    ):
        send(method, path, note="by a token of a password alone")
    form = urlencode({"grant_type": "password", "username": address("second factor"), "password": PASSWORD})
    script.send("POST", "/oauth2/token", form, caller=script.cast.keyed, note="by a password alone")
    rows = {"roles": ["Viewer", "Auditor"]}
    for body in (rows, {"roles": ["King"]}, {"roles": []}, {}, {"roles": None}):
        send("PUT", "/factor-rules", body)


def sessions(script: Script) -> None:
    """Browser sessions, and a password change that ends them."""
    caller = script.cast.callers["password"]
    shop = browser(script.bench, "password")
    rows = json.loads(script.send("GET", "/sessions", caller=caller).body)
    script.send("GET", "/me", caller=shop, base="/console/api/v3")
    script.send("GET", "/cars?$top=1", caller=shop, base="/console/api/v3")
    script.send("PUT", "/cars", {"name": "x"}, caller=shop, base="/console/api/v3")
    script.send(
        "PUT", "/me/preferences", {"language": "xx", "timeZone": "Europe/Berlin", "theme": "dark"}, caller=caller
    )
    script.send("PUT", "/me/preferences", {"language": "de", "timeZone": "Nowhere", "theme": "dark"}, caller=caller)
    script.send(
        "PUT", "/me/preferences", {"language": "de", "timeZone": "Europe/Berlin", "theme": "dark"}, caller=caller
    )
    script.send("GET", "/me", caller=caller)
    script.send("DELETE", f"/sessions/{rows[0]['id']}", caller=script.cast.callers["viewer"], note="of somebody else")
    for row in rows:
        script.send("DELETE", f"/sessions/{row['id']}", caller=caller)
    script.send("GET", "/sessions", caller=caller, note="none is left")
    for body in (
        {"currentPassword": "wrong", "newPassword": "another pass phrase"},
        {"currentPassword": PASSWORD, "newPassword": "short"},
        {"currentPassword": PASSWORD, "newPassword": address("password")},
        {"currentPassword": PASSWORD, "newPassword": "another pass phrase"},
    ):
        response = script.send("PUT", "/me/password", body, caller=caller)
        if response.status < 300:  # the previous token expires as soon as the server learns of the change
            script.session.wait_until(lambda: not script.session.accepts(caller), "The end of a token")
    script.send("GET", "/me", caller=caller, note="after the new password")
