"""Clients: their permissions, and their secrets, each of which is shown once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import MEANINGS, PROGRAMS, Permission
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, key, refused
from keyrack.console.local_times import instant, utc
from keyrack.console.rendering import base, clock, gettext, page, redirect
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "settings"
DONE = {
    "changed": N_("The client is changed. The change takes effect at once, also for issued tokens."),
    "removed": N_("The client is removed."),
    "secret": N_("The secret is removed. Its tokens are no longer valid."),
}
NO_NAME = N_("Enter the program and its purpose.")
NO_SCOPE = N_("Choose at least one.")
PASSED = N_("Choose a day in the future.")
# Mode -> label
MODES = {
    "strict": N_("Strict: what is unknown is rejected"),
    "spec": N_("By the specification: what is unknown is ignored"),
}


@pages.get("/{customer}/settings/clients", permission=Permission.CLIENTS_READ)
async def clients(visit: Visit) -> Response:
    rows = (await visit.call("GET", "/clients", query={"$orderby": "name"})).json
    return await page(
        visit,
        "clients.html",
        section=SECTION,
        rows=rows,
        over=_over(rows),
        done=DONE.get(visit.query_value("done"), ""),
    )


def _over(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """The ids of expired clients."""
    now = datetime.now(UTC)
    return {row["id"] for row in rows if row["expires"] and instant(row["expires"]) <= now}


@pages.get("/{customer}/settings/clients/new", permission=Permission.CLIENTS_WRITE)
async def form(visit: Visit) -> Response:
    return await _form(visit, {"name": "", "scopes": [], "last": "", "mode": "strict"}, RIGHT)


async def _form(
    visit: Visit, typed: Mapping[str, Any], wrong: FormErrors, client: Mapping[str, Any] | None = None, tag: str = ""
) -> Response:
    """The form of a new or an existing client."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    return await page(
        visit, "client_form.html", status=wrong.status, section=SECTION, typed=typed, wrong=wrong, client=client,
        tag=tag, scopes=_scopes(visit), key=key(visit), earliest=tomorrow.isoformat(),
        modes=[(mode, gettext(visit, label)) for mode, label in MODES.items()],
    )  # fmt: skip


def _scopes(visit: Visit) -> list[list[tuple[str, str]]]:
    """The available scopes with their descriptions, by subject."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for scope in PROGRAMS:
        subjects.setdefault(scope.partition(":")[0], []).append((str(scope), gettext(visit, MEANINGS[scope])))
    return list(subjects.values())


def _typed(visit: Visit) -> dict[str, Any]:
    scopes, mode = visit.form.get("scopes", []), visit.form_value("mode")
    return {"name": visit.form_value("name"), "scopes": scopes, "last": visit.form_value("last"), "mode": mode}


def _looked(visit: Visit, typed: Mapping[str, Any]) -> FormErrors:
    """The errors that the page itself finds."""
    return invalid(
        (
            ("name", "" if typed["name"] else gettext(visit, NO_NAME)),
            ("scopes", "" if typed["scopes"] else gettext(visit, NO_SCOPE)),
            ("last", gettext(visit, PASSED) if typed["last"] and _end(visit, typed["last"]) is None else ""),
        )
    )


def _end(visit: Visit, last: str) -> str | None:
    """The end of the last day in the person's zone; None for a past or an invalid day."""
    try:
        end = clock(visit).end_of(date.fromisoformat(last))
    except ValueError:
        return None
    return utc(end) if end > datetime.now(UTC) else None


@pages.post("/{customer}/settings/clients/new", has_secret=True, permission=Permission.CLIENTS_WRITE)
async def add(visit: Visit) -> Response:
    typed = _typed(visit)
    if wrong := _looked(visit, typed).texts:
        return await _form(visit, typed, invalid(wrong))
    body = {"name": typed["name"], "scopes": typed["scopes"], "expires": _end(visit, typed["last"])}
    if typed["mode"]:
        body["mode"] = typed["mode"]
    try:
        made = (await visit.call("PUT", "/clients", body=body, key=visit.form_value("key"))).json
    except SHOWN as refusal:
        return await _form(visit, typed, refused(visit, refusal))
    return await _shown(visit, made["id"], made["clientId"], made["clientSecret"], 201)


async def _shown(visit: Visit, client: object, id: str, secret: str, status: int = 200) -> Response:
    """The page that shows a secret once."""
    return await page(
        visit, "client_secret.html", status=status, section=SECTION, client=client, id=id, secret=secret,
        token_url=f"{visit.settings.public_url}/v3/oauth2/token",
    )  # fmt: skip


@pages.get("/{customer}/settings/clients/{client}", permission=Permission.CLIENTS_READ)
async def client(visit: Visit) -> Response:
    return await _client(visit)


async def _client(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    number = visit.ids["client"]
    client = (await visit.call("GET", "/clients/{clientId}", number)).json
    secrets = (await visit.call("GET", "/clients/{clientId}/secrets", number, query={"$orderby": "id"})).json
    label = MODES[client["mode"]]
    return await page(
        visit, "client.html", status=wrong.status, section=SECTION, client=client, secrets=secrets, wrong=wrong,
        over=bool(_over([client])), means={str(scope): gettext(visit, MEANINGS[scope]) for scope in Permission},
        done=DONE.get(visit.query_value("done"), ""), key=key(visit),
        mode=gettext(visit, label),
    )  # fmt: skip


def _path(visit: Visit, done: str = "") -> str:
    return f"{base(visit)}/settings/clients/{visit.ids['client']}" + (f"?done={done}" if done else "")


@pages.get("/{customer}/settings/clients/{client}/change", permission=Permission.CLIENTS_WRITE)
async def edit(visit: Visit) -> Response:
    reply = await visit.call("GET", "/clients/{clientId}", visit.ids["client"])
    client = reply.json
    typed = {member: client[member] for member in ("name", "scopes", "mode")} | {"last": _last_day(visit, client)}
    return await _form(visit, typed, RIGHT, client, reply.tag)


def _last_day(visit: Visit, client: Mapping[str, Any]) -> str:
    """The last day of a client in the person's zone; "" without an end."""
    return clock(visit).last_day(client["expires"]).isoformat() if client["expires"] else ""


@pages.post("/{customer}/settings/clients/{client}/change", permission=Permission.CLIENTS_WRITE)
async def change(visit: Visit) -> Response:
    typed = _typed(visit)
    reply = await visit.call("GET", "/clients/{clientId}", visit.ids["client"])
    client, own = reply.json, reply.json["managedHere"]
    is_same_end = typed["last"] == _last_day(visit, client)
    given = typed if own else {**typed, "name": client["name"], "last": ""}
    looked = _looked(visit, {**given, "last": ""} if is_same_end else given)
    if looked.texts:
        return await _form(visit, typed, looked, client, visit.form_value("tag"))
    steps: list[dict[str, Any]] = [{"op": "replace", "path": "/scopes", "value": typed["scopes"]}]
    if own:
        steps.append({"op": "replace", "path": "/name", "value": typed["name"]})
        if typed["mode"] not in ("", client["mode"]):
            steps.append({"op": "replace", "path": "/mode", "value": typed["mode"]})
        if not is_same_end:  # the stored end may be within its last day
            end = _end(visit, typed["last"])
            steps.append(
                {"op": "replace", "path": "/expires", "value": end} if end else {"op": "remove", "path": "/expires"}
            )
    try:
        await visit.call(
            "PATCH", "/clients/{clientId}", visit.ids["client"], body=steps, if_match=visit.form_value("tag") or None
        )
    except SHOWN as refusal:
        return await _form(visit, typed, refused(visit, refusal), client, reply.tag)
    return redirect(_path(visit, "changed"))


@pages.post("/{customer}/settings/clients/{client}/enabled", permission=Permission.CLIENTS_WRITE)
async def enable(visit: Visit) -> Response:
    """Enable or disable the client."""
    step = {"op": "replace", "path": "/enabled", "value": visit.form_value("enabled") == "true"}
    return await _done(visit, "changed", "PATCH", "/clients/{clientId}", body=[step])


@pages.post("/{customer}/settings/clients/{client}/secrets", has_secret=True, permission=Permission.CLIENTS_WRITE)
async def another(visit: Visit) -> Response:
    """Create another secret, and show it once; or remove one."""
    if ended := visit.form_value("secret"):
        path = "/clients/{clientId}/secrets/{secretId}"
        return await _done(visit, "secret", "DELETE", path, ended)
    number = visit.ids["client"]
    try:
        client = (await visit.call("GET", "/clients/{clientId}", number)).json
        made = (
            await visit.call("PUT", "/clients/{clientId}/secrets", number, key=visit.form_value("key") or None)
        ).json
    except SHOWN as refusal:
        return await _client(visit, refused(visit, refusal))
    return await _shown(visit, number, client["clientId"], made["clientSecret"])


@pages.get("/{customer}/settings/clients/{client}/delete", permission=Permission.CLIENTS_WRITE)
async def confirm(visit: Visit) -> Response:
    client = (await visit.call("GET", "/clients/{clientId}", visit.ids["client"])).json
    return await page(visit, "client_delete.html", section=SECTION, client=client, back=_path(visit))


@pages.post("/{customer}/settings/clients/{client}/delete", permission=Permission.CLIENTS_WRITE)
async def remove(visit: Visit) -> Response:
    await visit.call("DELETE", "/clients/{clientId}", visit.ids["client"])
    return redirect(f"{base(visit)}/settings/clients?done=removed")


async def _done(visit: Visit, done: str, method: str, path: str, *ids: object, **more: Any) -> Response:
    """Do an action and return to the client, with an error if it was rejected."""
    try:
        await visit.call(method, path, visit.ids["client"], *ids, **more)
    except SHOWN as refusal:
        return await _client(visit, refused(visit, refusal))
    return redirect(_path(visit, done))
