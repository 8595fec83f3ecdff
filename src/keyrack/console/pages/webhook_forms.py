"""Forms of webhooks: adding one, changing one field, and the secret that is shown once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.dialect_labels import DEFAULT_DIALECT, dialect_choices, dialect_label
from keyrack.console.event_type_labels import NAMES, OUTCOMES, Kinds, kinds
from keyrack.console.form_errors import key
from keyrack.console.pages.webhooks import SECTION, of_webhook, pull_calls
from keyrack.console.rendering import base, gettext, page, redirect, translate_error
from keyrack.core.addresses import domain_form
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound, Refusal, Unauthorized
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
WRONG = {  # field -> its error
    "url": N_(
        "This is not a valid webhook address. It must begin with https:// or http:// and have a valid host"
        " name. A port must be from 1 to 65535. A user name, # and blanks are not allowed."
    ),
    "secret": N_("Only ASCII letters, digits and signs, at most 250, without a blank at the start or end."),
    "kinds": N_("Choose at least one."),
    "dialect": N_("Choose one of the formats."),
    "name": N_("At most 250 characters, without control characters."),
}
WAYS = ("push", "pull")  # how the messages of a new webhook reach their receiver, the usual one first


@pages.get("/{customer}/webhooks/new", permission=Permission.WEBHOOKS_WRITE)
async def form(visit: Visit) -> Response:
    empty = {
        "way": WAYS[0], "url": "", "name": "", "secret": "", "kinds": list(OUTCOMES), "dialect": DEFAULT_DIALECT,
    }  # fmt: skip
    return await _form(visit, await kinds(visit), empty)


async def _form(visit: Visit, event_kinds: Kinds, typed: Mapping[str, Any], refusal: Refusal | None = None) -> Response:
    return await page(
        visit, "webhook_new.html", status=refusal.status if refusal else 200, section=SECTION,
        back=f"{base(visit)}/webhooks", typed=typed, wrong=_wrong(visit, refusal) if refusal else {},
        kinds=NAMES, outcomes=OUTCOMES, groups=event_kinds.groups(typed["kinds"]), dialects=dialect_choices(),
        key=key(visit, refusal),
    )  # fmt: skip


@pages.post("/{customer}/webhooks/new", has_secret=True, permission=Permission.WEBHOOKS_WRITE)
async def add(visit: Visit) -> Response:
    event_kinds = await kinds(visit)
    typed: dict[str, Any] = {
        "way": "pull" if visit.form_value("way") == "pull" else WAYS[0], "name": visit.form_value("name").strip(),
        "url": visit.form_value("url"), "secret": visit.form_value("secret"), "kinds": event_kinds.sent(visit),
        "dialect": visit.form_value("dialect") or DEFAULT_DIALECT,
    }  # fmt: skip
    try:
        made = await visit.call(
            "PUT",
            "/webhooks",
            body=_body(typed),
            key=visit.form_value("key"),
        )
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _form(visit, event_kinds, typed, refusal)
    return await page(
        visit, "webhook_secret.html", status=201, section=SECTION, id=made.json["id"],
        secret=made.json["signingSecret"], until=None, is_pull=typed["way"] == "pull", calls=pull_calls(visit),
    )  # fmt: skip


def _body(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `PUT /webhooks`. A pull webhook has no address, whatever the hidden field contains."""
    body = {name: typed[name] for name in ("kinds", "dialect")}
    body |= {name: typed[name] or None for name in ("name", "secret")}
    return body | ({"pull": True} if typed["way"] == "pull" else {"url": ascii_url(typed["url"])})


def ascii_url(typed: str) -> str:
    """The typed address in ASCII, as browsers read one: the host in A-labels, other characters percent-encoded.

    Source: WHATWG URL, section 4.4. Without a valid host the text is returned unchanged, and the API rejects it.
    """
    url = typed.strip()
    try:
        place = urlsplit(url).netloc
        user, at, host = place.rpartition("@")
        name, colon, port = host.partition(":")  # an IPv6 address, which has several colons, is ASCII
        ascii_place = place if place.isascii() else f"{user}{at}{domain_form(name)}{colon}{port}"
    except ValueError:
        return url
    return NOT_ASCII.sub(lambda part: quote(part[0]), url.replace(place, ascii_place, 1))


def _wrong(visit: Visit, refusal: Refusal) -> dict[str, str]:
    """Field -> its error; "" for errors of the whole form."""
    members = {(fault.pointer or "").strip("/").split("/")[0] for fault in refusal.errors} & WRONG.keys()
    if not members:
        return {"": translate_error(visit, refusal.reason)}
    return {member: gettext(visit, WRONG[member]) for member in members}


@pages.post("/{customer}/webhooks/{webhook}/rotate", has_secret=True, permission=Permission.WEBHOOKS_WRITE)
async def rotate(visit: Visit) -> Response:
    """Create a new signing secret, and show it once."""
    made = await visit.call(
        "POST", "/webhooks/{webhookId}/rotate-secret", visit.ids["webhook"], key=visit.form_value("key") or None
    )
    return await page(
        visit, "webhook_secret.html", section=SECTION, id=visit.ids["webhook"], secret=made.json["signingSecret"],
        until=made.json["oldSigningSecretUntil"], is_pull=False,
    )  # fmt: skip


@pages.get("/{customer}/webhooks/{webhook}/change/{member}", permission=Permission.WEBHOOKS_WRITE)
async def edit(visit: Visit) -> Response:
    reply = await visit.call("GET", "/webhooks/{webhookId}", visit.ids["webhook"])
    value = "" if visit.ids["member"] == "secret" else reply.json.get(visit.ids["member"])
    return await _edit(visit, reply.json, value, reply.tag)


async def _edit(
    visit: Visit, webhook: Mapping[str, Any], value: Any, tag: str, wrong: str = "", status: int = 200
) -> Response:
    """The form of one field. Raises `NotFound` for a field that has none."""
    if visit.ids["member"] not in WRONG:
        raise NotFound(NOTHING_HERE)
    chosen = value if visit.ids["member"] == "kinds" else ()
    return await page(
        visit, "webhook_change.html", status=status, section=SECTION, webhook=webhook, member=visit.ids["member"],
        value=value, tag=tag, wrong=wrong, kinds=NAMES, outcomes=OUTCOMES,
        groups=(await kinds(visit)).groups(chosen) if chosen != () else [], dialects=dialect_choices(),
        dialect=dialect_label(webhook["dialect"]),
    )  # fmt: skip


@pages.post("/{customer}/webhooks/{webhook}/change/{member}", permission=Permission.WEBHOOKS_WRITE)
async def change(visit: Visit) -> Response:
    member = visit.ids["member"]
    value: Any = (await kinds(visit)).sent(visit) if member == "kinds" else visit.form_value(member)
    step = {"op": "replace", "path": f"/{member}", "value": ascii_url(value) if member == "url" else value}
    if member in ("secret", "name") and not value.strip():
        step = {"op": "remove", "path": f"/{member}"}
    try:
        await visit.call(
            "PATCH",
            "/webhooks/{webhookId}",
            visit.ids["webhook"],
            body=[step],
            if_match=visit.form_value("tag") or None,
        )
    except (Unauthorized, NotFound):
        raise
    except Refusal as refusal:
        now = await visit.call("GET", "/webhooks/{webhookId}", visit.ids["webhook"])
        said = (
            gettext(visit, WRONG.get(member, "")) if refusal.status == 400 else translate_error(visit, refusal.reason)
        )
        if refusal.status == 412:
            said = gettext(
                visit, "Another person changed the webhook in the meantime. Saving again replaces the current values."
            )
        return await _edit(visit, now.json, value, now.tag, said, refusal.status)
    return redirect(of_webhook(visit))
